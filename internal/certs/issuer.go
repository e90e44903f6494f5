package certs

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
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
}

// Serving is what one flow or pool serves with.
type Serving struct {
	Namespace string
	// Entry is the name of the certificate in the namespace.
	Entry string
	// Hosts are the names that its peers verify.
	Hosts []string
	// RenewBefore is what RenewBefore says of the flow or pool.
	RenewBefore time.Time
}

// Issued is a certificate that is there.
type Issued struct {
	// RenewIn is when Ensure has to be called again at the latest.
	RenewIn time.Duration
	Expires time.Time
}

// Ensure makes the certificate of a flow or pool a valid one, and the bundle beside it current. It writes only where something has to change.
func (i *Issuer) Ensure(ctx context.Context, s Serving) (Issued, error) {
	if _, err := i.ensureBundle(ctx, s.Namespace); err != nil {
		return Issued{}, err
	}
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: s.Namespace, Name: runtimeconfig.TLSSecretName}
	err := i.Keeper.Client.Get(ctx, key, &secret)
	if client.IgnoreNotFound(err) != nil {
		return Issued{}, fmt.Errorf("reading the certificates of %s: %w", s.Namespace, err)
	}
	now := i.Clock.Now()
	certKey, keyKey := s.Entry+runtimeconfig.TLSCertSuffix, s.Entry+runtimeconfig.TLSKeySuffix
	ring := i.Authority.known()
	if cert, ok := usable(secret.Data[certKey], secret.Data[keyKey], s, ring.signing(), now); ok {
		return issued(cert, s, now), nil
	}
	signed, err := ring.current.sign(Leaf{CommonName: s.Entry, Hosts: s.Hosts, Usage: x509.ExtKeyUsageServerAuth}, now)
	if err != nil {
		return Issued{}, err
	}
	certPEM, keyPEM, err := signed.encode()
	if err != nil {
		return Issued{}, err
	}
	if err := i.write(ctx, key, secret.UID != "", map[string][]byte{certKey: certPEM, keyKey: keyPEM}); err != nil {
		return Issued{}, err
	}
	return issued(signed.cert, s, now), nil
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
	key := client.ObjectKey{Namespace: namespace, Name: runtimeconfig.TLSSecretName}
	var secret corev1.Secret
	switch err := i.Keeper.Client.Get(ctx, key, &secret); {
	case apierrors.IsNotFound(err):
		return i.forgetBundle(ctx, namespace)
	case err != nil:
		return fmt.Errorf("reading the certificates of %s: %w", namespace, err)
	}
	certKey, keyKey := entry+runtimeconfig.TLSCertSuffix, entry+runtimeconfig.TLSKeySuffix
	others := 0
	for name := range secret.Data {
		if name != certKey && name != keyKey {
			others++
		}
	}
	if others > 0 {
		err := i.write(ctx, key, true, map[string][]byte{certKey: nil, keyKey: nil})
		return client.IgnoreNotFound(err)
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

// ensureBundle makes the bundle of the namespace the authority's own, followed by what it inherits, and says whether it wrote.
func (i *Issuer) ensureBundle(ctx context.Context, namespace string) (wrote bool, err error) {
	desired := bundle(namespace)
	var observed corev1.ConfigMap
	err = i.Keeper.Client.Get(ctx, client.ObjectKeyFromObject(desired), &observed)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the trust bundle of %s: %w", namespace, err)
	}
	ring := i.Authority.known()
	inherited := ring.inherited([]byte(observed.Data[corev1.ServiceAccountRootCAKey]), i.Clock.Now())
	encoded, err := certutil.EncodeCertificates(append(ring.trusted(), inherited...)...)
	if err != nil {
		return false, fmt.Errorf("encoding the trust bundle of %s: %w", namespace, err)
	}
	desired.Data = map[string]string{corev1.ServiceAccountRootCAKey: string(encoded)}
	return i.Keeper.Ensure(ctx, desired)
}

func bundle(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: runtimeconfig.CAConfigMapName}}
}

// usable returns a certificate that serves a flow or pool for its peers and need not be renewed yet. One of a former authority does not
// count: a rotation ends when the last of these has been replaced.
func usable(certPEM, keyPEM []byte, s Serving, signing *x509.CertPool, now time.Time) (*x509.Certificate, bool) {
	have, err := decode(certPEM, keyPEM)
	if err != nil {
		return nil, false
	}
	for _, host := range s.Hosts {
		if _, err := have.cert.Verify(x509.VerifyOptions{DNSName: host, Roots: signing, CurrentTime: now}); err != nil {
			return nil, false
		}
	}
	return have.cert, now.Before(renewAt(have.cert)) && !outdated(have.cert, s.RenewBefore, now)
}
