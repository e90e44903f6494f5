package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/internal/children"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// Issuer keeps the server certificates and the trust bundle of every namespace with a flow or a pool.
type Issuer struct {
	Authority *Authority
	Keeper    children.Keeper
	Clock     clock.PassiveClock
	// Outside gives the certificates; nil means the authority does.
	Outside *Outside
	// Pause is how long kubelets may take to bring what was written into the pods.
	Pause time.Duration

	recalled recollections
}

// Serving is what one flow or pool serves with.
type Serving struct {
	Namespace string
	// Entry is the name of the certificate in the namespace.
	Entry string
	// Hosts are the names that its peers verify.
	Hosts []string
	// Owner is the flow or pool.
	Owner metav1.OwnerReference
	// RenewBefore is what RenewBefore says of the flow or pool.
	RenewBefore time.Time
}

// Issued is the certificate of a flow or pool.
type Issued struct {
	// RenewIn is when Ensure has to be called again at the latest.
	RenewIn time.Duration
	// Expires is when the certificate does; zero where there is none.
	Expires time.Time
	// Missing says why there is none yet. It is empty where there is one, be it one that should be replaced.
	Missing string
	// Trouble says what a person has to look at. News says that the call before did not say so.
	Trouble string
	News    bool
}

// Ensure makes the certificate of a flow or pool a valid one, and the bundle beside it current. It writes only where something has to change.
// Where an issuer outside has to be waited for, Issued says so.
func (i *Issuer) Ensure(ctx context.Context, s Serving) (Issued, error) {
	secret, err := i.secret(ctx, s.Namespace)
	if err != nil {
		return Issued{}, err
	}
	recalled, now := i.recalled.about(s), i.Clock.Now()
	wrote, err := i.ensureBundle(ctx, s.Namespace, secret.Data)
	if err != nil {
		return Issued{}, err
	}
	if wrote {
		recalled.announced = time.Time{}
	}
	before := readEntry(secret.Data, s.Entry)
	after, out, err := i.next(ctx, before, s, recalled, now)
	if err != nil {
		return Issued{}, err
	}
	if i.Outside != nil && secret.ResourceVersion == "" {
		if after.former, err = i.orphaned(ctx, s.Namespace); err != nil {
			return Issued{}, err
		}
	}
	after, out.RenewIn = i.withdraw(before, after, recalled, out.RenewIn, now)
	changed := changes(secret.Data, s.Entry, after)
	if len(changed) == 0 {
		return out, nil
	}
	// What verifies a certificate is in the bundle before it.
	if _, err := i.ensureBundle(ctx, s.Namespace, merged(secret.Data, changed)); err != nil {
		return Issued{}, err
	}
	return out, i.write(ctx, client.ObjectKeyFromObject(secret), secret.ResourceVersion != "", changed)
}

// secret reads the Secret of a namespace; one that is not there is empty.
func (i *Issuer) secret(ctx context.Context, namespace string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: namespace, Name: runtimeconfig.TLSSecretName}
	if err := client.IgnoreNotFound(i.Keeper.Client.Get(ctx, key, secret)); err != nil {
		return nil, fmt.Errorf("reading the certificates of %s: %w", namespace, err)
	}
	secret.Namespace, secret.Name = key.Namespace, key.Name
	return secret, nil
}

// next is the entry as it should be, and what is to be said of it.
func (i *Issuer) next(ctx context.Context, before entry, s Serving, recalled *recollection, now time.Time) (entry, Issued, error) {
	ring := i.Authority.known()
	if i.Outside != nil {
		t := &turn{recollection: recalled, outside: i.Outside, serving: s, own: poolOf(ring.trusted()), pause: i.Pause, now: now}
		return t.take(ctx, before)
	}
	if cert, ok := usable(before.cert, before.key, s, ring.signing(), now); ok {
		return before.quiet(), issued(cert, s, now), nil
	}
	signed, err := ring.current.sign(Leaf{CommonName: s.Entry, Hosts: s.Hosts, Usage: x509.ExtKeyUsageServerAuth}, now)
	if err != nil {
		return before, Issued{}, err
	}
	certPEM, keyPEM, err := signed.encode()
	if err != nil {
		return before, Issued{}, err
	}
	return before.serve(certPEM, keyPEM, nil), issued(signed.cert, s, now), nil
}

// withdraw ends the trust in what verified former certificates, once no pod can serve with them.
func (i *Issuer) withdraw(before, after entry, recalled *recollection, next time.Duration, now time.Time) (entry, time.Duration) {
	if !bytes.Equal(before.cert, after.cert) || len(after.nextKey) > 0 {
		recalled.settled = time.Time{}
	}
	if len(after.former) == 0 || len(after.cert) == 0 || len(after.nextKey) > 0 {
		return after, next
	}
	left := until(&recalled.settled, i.Pause, now)
	if left == 0 {
		after.former = nil
		return after, next
	}
	return after, min(next, left)
}

func issued(cert *x509.Certificate, s Serving, now time.Time) Issued {
	out := Issued{RenewIn: renewAt(cert).Sub(now), Expires: cert.NotAfter}
	if now.Before(s.RenewBefore) {
		out.RenewIn = min(out.RenewIn, s.RenewBefore.Sub(now))
	}
	return out
}

// Forget removes entry from the namespace, and with the last entry the Secret and the bundle.
func (i *Issuer) Forget(ctx context.Context, namespace, entry string) error {
	i.recalled.forget(namespace, entry)
	key := client.ObjectKey{Namespace: namespace, Name: runtimeconfig.TLSSecretName}
	var secret corev1.Secret
	switch err := i.Keeper.Client.Get(ctx, key, &secret); {
	case apierrors.IsNotFound(err):
		return i.forgetBundle(ctx, namespace)
	case err != nil:
		return fmt.Errorf("reading the certificates of %s: %w", namespace, err)
	}
	gone := readEntry(nil, entry).data(entry)
	others := 0
	for name := range secret.Data {
		if _, ours := gone[name]; !ours {
			others++
		}
	}
	if others > 0 {
		return client.IgnoreNotFound(i.write(ctx, key, true, gone))
	}
	// The precondition saves an entry that was added since.
	err := i.Keeper.Client.Delete(ctx, &secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
	if apierrors.IsConflict(err) {
		return fmt.Errorf("removing the certificates of %s: %w", namespace, err)
	}
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("removing the certificates of %s: %w", namespace, err)
	}
	return i.forgetBundle(ctx, namespace)
}

func (i *Issuer) forgetBundle(ctx context.Context, namespace string) error {
	if err := client.IgnoreNotFound(i.Keeper.Client.Delete(ctx, bundle(namespace))); err != nil {
		return fmt.Errorf("removing the trust bundle of %s: %w", namespace, err)
	}
	return nil
}

// write creates the Secret with data, or patches data into it; nil removes a key. A patch names only its own keys, so that a flow and
// a pool of one namespace never overwrite each other's.
func (i *Issuer) write(ctx context.Context, key client.ObjectKey, exists bool, data map[string][]byte) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	children.Mark(secret)
	if !exists {
		secret.Data = data
		err := i.Keeper.Client.Create(ctx, secret)
		if !apierrors.IsAlreadyExists(err) {
			if err != nil {
				return fmt.Errorf("creating the certificates of %s: %w", key.Namespace, err)
			}
			return nil
		}
	}
	encoded := map[string]*string{}
	for name, value := range data {
		encoded[name] = nil
		if value != nil {
			text := base64.StdEncoding.EncodeToString(value)
			encoded[name] = &text
		}
	}
	body, err := json.Marshal(map[string]any{"data": encoded})
	if err != nil {
		return fmt.Errorf("encoding the certificates of %s: %w", key.Namespace, err)
	}
	if err := i.Keeper.Client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, body)); err != nil {
		return fmt.Errorf("patching the certificates of %s: %w", key.Namespace, err)
	}
	return nil
}

// ensureBundle makes the bundle of the namespace the authority's own, followed by what it inherits and by what verifies the certificates
// from outside in the Secret, and says whether it wrote. Beside it is what verifies the operator, which is its own authority alone: whoever
// gets certificates of an issuer outside must not pass for the operator.
func (i *Issuer) ensureBundle(ctx context.Context, namespace string, certificates map[string][]byte) (wrote bool, err error) {
	desired := bundle(namespace)
	observed, err := i.observedBundle(ctx, namespace)
	if err != nil {
		return false, err
	}
	now, ring := i.Clock.Now(), i.Authority.known()
	roots := slices.Concat(ring.trusted(), ring.inherited(observed, now))
	for _, cert := range without(outside(certificates), roots) {
		if now.Before(cert.NotAfter) {
			roots = append(roots, cert)
		}
	}
	if i.Outside != nil && len(certificates) == 0 {
		roots = append(roots, without(rootsIn(observed), roots)...) // the Secret was lost, pods serve on
	}
	desired.Data = map[string]string{}
	for key, certs := range map[string][]*x509.Certificate{corev1.ServiceAccountRootCAKey: roots, runtimeconfig.OperatorCAKey: ring.trusted()} {
		encoded, err := certutil.EncodeCertificates(certs...)
		if err != nil {
			return false, fmt.Errorf("encoding the trust bundle of %s: %w", namespace, err)
		}
		desired.Data[key] = string(encoded)
	}
	return i.Keeper.Ensure(ctx, desired)
}

// orphaned are the authorities in the bundle that nothing says the use of, because the Secret was lost. Pods may serve with certificates of
// theirs.
func (i *Issuer) orphaned(ctx context.Context, namespace string) ([]byte, error) {
	observed, err := i.observedBundle(ctx, namespace)
	if err != nil {
		return nil, err
	}
	ring := i.Authority.known()
	roots := without(rootsIn(observed), slices.Concat(ring.trusted(), ring.inherited(observed, i.Clock.Now())))
	if len(roots) == 0 {
		return nil, nil
	}
	encoded, err := certutil.EncodeCertificates(roots...)
	if err != nil {
		return nil, fmt.Errorf("encoding former authorities of %s: %w", namespace, err)
	}
	return encoded, nil
}

func (i *Issuer) observedBundle(ctx context.Context, namespace string) ([]byte, error) {
	observed := bundle(namespace)
	if err := client.IgnoreNotFound(i.Keeper.Client.Get(ctx, client.ObjectKeyFromObject(observed), observed)); err != nil {
		return nil, fmt.Errorf("reading the trust bundle of %s: %w", namespace, err)
	}
	return []byte(observed.Data[corev1.ServiceAccountRootCAKey]), nil
}

// Roots are what verifies the servers of a namespace.
func (i *Issuer) Roots(ctx context.Context, namespace string) (*x509.CertPool, error) {
	secret, err := i.secret(ctx, namespace)
	if err != nil {
		return nil, err
	}
	pool := i.Authority.Pool()
	for _, cert := range outside(secret.Data) {
		pool.AddCert(cert)
	}
	return pool, nil
}

func bundle(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: runtimeconfig.CAConfigMapName}}
}

// usable returns a certificate that serves a flow or pool for its peers and need not be renewed yet. One of a former authority does not
// count: a rotation ends when the last of these has been replaced.
func usable(certPEM, keyPEM []byte, s Serving, signing *x509.CertPool, now time.Time) (*x509.Certificate, bool) {
	cert, ok := verified(certPEM, keyPEM, signing, s.Hosts, now)
	if !ok {
		return nil, false
	}
	return cert, now.Before(renewAt(cert)) && !outdated(cert, s.RenewBefore, now)
}

// verified returns a certificate that peers with these roots verify for each of hosts.
func verified(certPEM, keyPEM []byte, roots *x509.CertPool, hosts []string, now time.Time) (*x509.Certificate, bool) {
	have, err := decode(certPEM, keyPEM)
	if err != nil {
		return nil, false
	}
	return have.cert, verify(have.cert, chainIn(certPEM), roots, hosts, now) == nil
}

// verify does what a peer does. A certificate that begins within backdate is not refused: the clock of whoever made it goes ahead.
func verify(cert *x509.Certificate, between, roots *x509.CertPool, hosts []string, now time.Time) error {
	if ahead := cert.NotBefore; now.Before(ahead) && ahead.Before(now.Add(backdate)) {
		now = ahead
	}
	for _, host := range hosts {
		if _, err := cert.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: between, CurrentTime: now}); err != nil {
			return err
		}
	}
	return nil
}

// chainIn are the certificates between the first in a PEM text and its root.
func chainIn(certPEM []byte) *x509.CertPool {
	found, err := certutil.ParseCertsPEM(certPEM)
	if err != nil {
		return x509.NewCertPool()
	}
	return poolOf(found[1:])
}
