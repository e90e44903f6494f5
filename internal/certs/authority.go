package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// syncEvery is how often a replica reads the authority again, to follow a rotation by the leader and to write a lost Secret again before
// the last process that knows it ends. Reading one Secret by name needs no right to list or watch Secrets.
const syncEvery = 5 * time.Second

// annotationPhase tells a reader of the Secret where a rotation is.
const annotationPhase = "workpulling.dev/rotation"

// ErrDamaged says that the Secret of the authority does not hold one, and that this process never knew one. A person has to delete it.
var ErrDamaged = errors.New("damaged; delete it and a new one is made")

// Authority is the operator's own certificate authority.
type Authority struct {
	// client must not read from a cache: the cache does not hold this Secret.
	client client.Client
	key    types.NamespacedName
	clock  clock.WithTicker
	log    logr.Logger

	mu     sync.RWMutex
	ring   keyring
	secret *corev1.Secret // as it was read or written last
	leaves map[string]tls.Certificate
}

// NewAuthority returns an Authority kept in the Secret key. Call Sync before anything else.
func NewAuthority(direct client.Client, key types.NamespacedName, c clock.WithTicker, log logr.Logger) *Authority {
	return &Authority{client: direct, key: key, clock: c, log: log, leaves: map[string]tls.Certificate{}}
}

// Sync reads the authority, and makes it where there is none. Where the Secret is gone or damaged, and this process knows what was in it,
// that is written again.
func (a *Authority) Sync(ctx context.Context) error {
	var secret corev1.Secret
	err := a.client.Get(ctx, a.key, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return a.create(ctx)
	case err != nil:
		return fmt.Errorf("reading the authority: %w", err)
	}
	ring, damage := decodeKeyring(secret.Data)
	if damage != nil {
		if ring = a.known(); ring.current.cert == nil {
			return fmt.Errorf("the authority's Secret %s is %w: %w", a.key, ErrDamaged, damage)
		}
		if err := a.write(ctx, &secret, ring); err != nil {
			if apierrors.IsConflict(err) {
				return a.Sync(ctx)
			}
			return err
		}
		a.log.Info("Wrote the damaged certificate authority again", "secret", a.key.String(), "expires", ring.current.cert.NotAfter)
	}
	a.adopt(ring, &secret)
	return nil
}

// write puts ring into the Secret as it was read. The lock makes one of several writers win.
func (a *Authority) write(ctx context.Context, secret *corev1.Secret, ring keyring) error {
	before := secret.DeepCopy()
	var err error
	if secret.Data, err = ring.encode(); err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, annotationPhase, string(ring.phase()))
	if err := a.client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the authority: %w", err)
	}
	return nil
}

// replace puts a keyring in the place of the one that was read last. A conflict is an error: what was decided rests on the other.
func (a *Authority) replace(ctx context.Context, ring keyring) error {
	secret := a.stored()
	if err := a.write(ctx, secret, ring); err != nil {
		return err
	}
	a.adopt(ring, secret)
	return nil
}

func (a *Authority) create(ctx context.Context) error {
	done := "Wrote the deleted certificate authority again"
	ring := a.known()
	if ring.current.cert == nil {
		done = "Created the certificate authority"
		var err error
		if ring.current, err = newAuthorityPair(a.clock.Now()); err != nil {
			return err
		}
	}
	data, err := ring.encode()
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.key.Namespace, Name: a.key.Name}, Type: corev1.SecretTypeTLS, Data: data}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, annotationPhase, string(ring.phase()))
	switch err := a.client.Create(ctx, secret); {
	case apierrors.IsAlreadyExists(err):
		return a.Sync(ctx)
	case err != nil:
		return fmt.Errorf("creating the authority: %w", err)
	}
	a.log.Info(done, "secret", a.key.String(), "expires", ring.current.cert.NotAfter)
	a.adopt(ring, secret)
	return nil
}

// known is the authority as this process saw it last; its current pair is empty before the first Sync.
func (a *Authority) known() keyring {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.ring
}

// stored is the Secret as this process saw it last.
func (a *Authority) stored() *corev1.Secret {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.secret.DeepCopy()
}

func (a *Authority) adopt(ring keyring, secret *corev1.Secret) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !ring.current.cert.Equal(a.ring.current.cert) {
		// After the Secret was replaced, nobody may trust the one that signed these.
		clear(a.leaves)
	}
	a.ring, a.secret = ring, secret
}

// Start keeps the authority in step until ctx ends, on every replica. Of failures in a row it logs the first.
func (a *Authority) Start(ctx context.Context) error {
	ticker := a.clock.NewTicker(syncEvery)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			err := a.Sync(ctx)
			if err != nil && !failing {
				a.log.Error(err, "Keeping the last known certificate authority")
			}
			failing = err != nil
		}
	}
}

// NeedLeaderElection says no: every replica serves with certificates of this authority.
func (a *Authority) NeedLeaderElection() bool { return false }

// Expires is when the authority that signs now ends.
func (a *Authority) Expires() time.Time {
	return a.known().current.cert.NotAfter
}

// Phase is where a rotation is.
func (a *Authority) Phase() Phase { return a.known().phase() }

// Pool is what the operator trusts. A namespace may trust more for a while, see inherited.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, cert := range a.known().trusted() {
		pool.AddCert(cert)
	}
	return pool
}

// Certificate returns a certificate for the operator's own use, from memory while half of its life is ahead.
func (a *Authority) Certificate(leaf Leaf) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if have, found := a.leaves[leaf.CommonName]; found && a.clock.Now().Before(renewAt(have.Leaf)) {
		return &have, nil
	}
	signed, err := a.ring.current.sign(leaf, a.clock.Now())
	if err != nil {
		return nil, err
	}
	made := tls.Certificate{Certificate: [][]byte{signed.cert.Raw}, PrivateKey: signed.key, Leaf: signed.cert}
	a.leaves[leaf.CommonName] = made
	return &made, nil
}
