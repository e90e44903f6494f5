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

// Ensure makes entry of the namespace's Secret a valid certificate for hosts, and the bundle beside it current. It returns how long that
// holds. It writes only where something has to change.
func (i *Issuer) Ensure(ctx context.Context, namespace, entry string, hosts ...string) (time.Duration, error) {
	if err := i.ensureBundle(ctx, namespace); err != nil {
		return 0, err
	}
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: namespace, Name: runtimeconfig.TLSSecretName}
	err := i.Keeper.Client.Get(ctx, key, &secret)
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("reading the certificates of %s: %w", namespace, err)
	}
	now := i.Clock.Now()
	certKey, keyKey := entry+runtimeconfig.TLSCertSuffix, entry+runtimeconfig.TLSKeySuffix
	if left, ok := usable(secret.Data[certKey], secret.Data[keyKey], hosts, i.Authority.Pool(), now); ok {
		return left, nil
	}
	signed, err := i.Authority.known().current.sign(Leaf{CommonName: entry, Hosts: hosts, Usage: x509.ExtKeyUsageServerAuth}, now)
	if err != nil {
		return 0, err
	}
	certPEM, keyPEM, err := signed.encode()
	if err != nil {
		return 0, err
	}
	if err := i.write(ctx, key, secret.UID != "", map[string][]byte{certKey: certPEM, keyKey: keyPEM}); err != nil {
		return 0, err
	}
	return renewAt(signed.cert).Sub(now), nil
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

// ensureBundle makes the bundle of the namespace the authority's own, followed by what it inherits.
func (i *Issuer) ensureBundle(ctx context.Context, namespace string) error {
	desired := bundle(namespace)
	var observed corev1.ConfigMap
	err := i.Keeper.Client.Get(ctx, client.ObjectKeyFromObject(desired), &observed)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the trust bundle of %s: %w", namespace, err)
	}
	ring := i.Authority.known()
	inherited := ring.inherited([]byte(observed.Data[corev1.ServiceAccountRootCAKey]), i.Clock.Now())
	encoded, err := certutil.EncodeCertificates(append(ring.trusted(), inherited...)...)
	if err != nil {
		return fmt.Errorf("encoding the trust bundle of %s: %w", namespace, err)
	}
	desired.Data = map[string]string{corev1.ServiceAccountRootCAKey: string(encoded)}
	_, err = i.Keeper.Ensure(ctx, desired)
	return err
}

func bundle(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: runtimeconfig.CAConfigMapName}}
}

// usable says whether a certificate serves hosts for its peers, and how long until it should be renewed.
func usable(certPEM, keyPEM []byte, hosts []string, trusted *x509.CertPool, now time.Time) (time.Duration, bool) {
	have, err := decode(certPEM, keyPEM)
	if err != nil {
		return 0, false
	}
	for _, host := range hosts {
		if _, err := have.cert.Verify(x509.VerifyOptions{DNSName: host, Roots: trusted, CurrentTime: now}); err != nil {
			return 0, false
		}
	}
	left := renewAt(have.cert).Sub(now)
	return left, left > 0
}
