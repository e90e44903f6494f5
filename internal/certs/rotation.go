package certs

import (
	"context"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// Rotation replaces the certificate authority: at half of its life, or when a person asks for it. It runs on the leader alone, since it has
// to know all bundles and server certificates.
type Rotation struct {
	Issuer *Issuer
	// Pause is how long each step waits for kubelets to bring what was written into the pods.
	Pause    time.Duration
	Clock    clock.WithTicker
	Recorder events.EventRecorder
	Log      logr.Logger

	// announced is since when every bundle has held every authority, replaced since when every certificate has been the current one's. A new
	// leader begins to count anew.
	announced, replaced time.Time
	failed              string
}

// NeedLeaderElection says yes.
func (r *Rotation) NeedLeaderElection() bool { return true }

// Start takes steps until ctx ends. Of the same failure in a row it logs the first.
func (r *Rotation) Start(ctx context.Context) error {
	ticker := r.Clock.NewTicker(syncEvery)
	defer ticker.Stop()
	for {
		err := r.Step(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != r.failed {
			r.Log.Error(err, "Cannot go on with the rotation of the certificate authority")
		}
		r.failed = ""
		if err != nil {
			r.failed = err.Error()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// Step takes the next step, where it is time for one.
func (r *Rotation) Step(ctx context.Context) error {
	authority := r.Issuer.Authority
	if err := authority.Sync(ctx); err != nil {
		return err
	}
	secret := authority.stored()
	asked, malformed := RenewBefore(secret) // which is no reason not to rotate in time
	if err := r.advance(ctx, secret, asked); err != nil {
		return err
	}
	return malformed
}

func (r *Rotation) advance(ctx context.Context, secret *corev1.Secret, asked time.Time) error {
	authority := r.Issuer.Authority
	ring, now := authority.known(), r.Clock.Now()
	s := sight{renewBefore: asked, pause: r.Pause}
	var waiting []string
	var err error
	if ring.phase() != PhaseNone {
		if waiting, err = r.look(ctx, ring, now); err != nil {
			return err
		}
		s.announcedFor, s.replacedFor = since(r.announced, now), since(r.replaced, now)
	}
	next, changed, err := ring.advance(s, now)
	if err != nil || !changed {
		r.tellWaiting(waiting)
		return err
	}
	if err := authority.replace(ctx, next); err != nil {
		return err
	}
	r.announced, r.replaced = time.Time{}, time.Time{}
	r.tell(secret, ring, next)
	// What was decided is in the Secret; if this fails, the next step does it.
	_, err = r.distribute(ctx)
	return err
}

func since(start, now time.Time) time.Duration {
	if start.IsZero() {
		return 0
	}
	return now.Sub(start)
}

// look brings every bundle up to date and sees what the server certificates are; it returns those that are not the current authority's.
func (r *Rotation) look(ctx context.Context, ring keyring, now time.Time) (waiting []string, err error) {
	wrote, err := r.distribute(ctx)
	switch {
	case err != nil || wrote:
		r.announced = time.Time{}
	case r.announced.IsZero():
		r.announced = now
	}
	if err != nil {
		return nil, err
	}
	if waiting, err = r.older(ctx, ring, now); err != nil {
		return nil, err
	}
	switch {
	case len(waiting) > 0:
		r.replaced = time.Time{}
	case r.replaced.IsZero():
		r.replaced = now
	}
	return waiting, nil
}

// distribute makes the bundle of every namespace what it should be, and says whether one was not. The change of a bundle brings a
// reconcile of each flow and pool of its namespace, which replaces their certificates.
func (r *Rotation) distribute(ctx context.Context) (wrote bool, err error) {
	var bundles corev1.ConfigMapList
	if err := r.Issuer.Keeper.Client.List(ctx, &bundles); err != nil {
		return false, fmt.Errorf("listing the trust bundles: %w", err)
	}
	for i := range bundles.Items {
		if bundles.Items[i].Name != runtimeconfig.CAConfigMapName || bundles.Items[i].DeletionTimestamp != nil {
			continue
		}
		namespace := bundles.Items[i].Namespace
		secret, err := r.Issuer.secret(ctx, namespace)
		if err != nil {
			return wrote, err
		}
		one, err := r.Issuer.ensureBundle(ctx, namespace, secret.Data)
		if err != nil {
			return wrote, err
		}
		wrote = wrote || one
	}
	return wrote, nil
}

// older names the server certificates, by namespace and entry, that another authority than the current one signed and that still serve.
func (r *Rotation) older(ctx context.Context, ring keyring, now time.Time) (names []string, err error) {
	var secrets corev1.SecretList
	// The cache holds those of this name alone, because the right to list Secrets is one for it alone.
	if err := r.Issuer.Keeper.Client.List(ctx, &secrets); err != nil {
		return nil, fmt.Errorf("listing the server certificates: %w", err)
	}
	for i := range secrets.Items {
		if secrets.Items[i].Name != runtimeconfig.TLSSecretName {
			continue
		}
		for key, value := range secrets.Items[i].Data {
			entry, isCert := strings.CutSuffix(key, runtimeconfig.TLSCertSuffix)
			if _, foreign := secrets.Items[i].Data[entry+suffixAuthority]; foreign {
				continue // an issuer outside gave it
			}
			if isCert && !replaced(value, ring.current.cert, now) {
				names = append(names, secrets.Items[i].Namespace+"/"+entry)
			}
		}
	}
	return names, nil
}

// replaced says whether nobody depends on another authority than current to trust a certificate.
func replaced(certPEM []byte, current *x509.Certificate, now time.Time) bool {
	found, err := certutil.ParseCertsPEM(certPEM)
	if err != nil {
		return false // the reconcilers make a new one
	}
	return found[0].CheckSignatureFrom(current) == nil || now.After(found[0].NotAfter)
}

// tell says what was done, in the log and as an Event about the Secret.
func (r *Rotation) tell(secret *corev1.Secret, before, after keyring) {
	var reason, note string
	switch {
	case after.next != nil:
		reason = "AuthorityAnnounced"
		note = fmt.Sprintf("%s will follow %s as certificate authority; it is being added to all trust bundles", after.next.cert.Subject.CommonName, before.current.cert.Subject.CommonName)
	case before.next != nil:
		reason = "AuthoritySigns"
		note = fmt.Sprintf("%s signs now; what %s signed is being replaced", after.current.cert.Subject.CommonName, before.current.cert.Subject.CommonName)
	default:
		reason = "AuthorityWithdrawn"
		note = fmt.Sprintf("every server certificate is of %s; the former authority is not trusted any more", after.current.cert.Subject.CommonName)
	}
	r.Log.Info("Rotating the certificate authority", "secret", client.ObjectKeyFromObject(secret).String(), "reason", reason, "note", note)
	r.Recorder.Eventf(secret, nil, corev1.EventTypeNormal, reason, "Rotating", "%s", note)
}

// tellWaiting logs what a rotation waits for, at a level that is off by default.
func (r *Rotation) tellWaiting(waiting []string) {
	if len(waiting) > 0 {
		r.Log.V(1).Info("Waiting for server certificates of the former authority to be replaced", "count", len(waiting), "first", waiting[0])
	}
}
