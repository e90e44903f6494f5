package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/test/harness"
	"github.com/workpulling/workpulling/test/prober"
)

const (
	// rotationPause is how long each step of the authority's rotation waits, the least that the operator allows.
	rotationPause = "90s"
	// servedLimit is how long a certificate may take from the request to the handshake: kubelet brings it within two minutes.
	servedLimit = 4 * time.Minute
	// rotationLimit is how long the authority may take: two pauses, and the certificates between them.
	rotationLimit = 12 * time.Minute
)

const (
	authoritySecret = "workpulling-ca"
	certificateEnds = "workpulling_certificate_expiry_timestamp_seconds"
)

// renew replaces the serving certificates of a flow and its pool, as docs/operations.md does, and waits until each pod serves a new one.
func (b *Bed) renew(ctx context.Context, f Fault, act *Act) error {
	of := b.flows[f.Target%len(b.flows)]
	act.What = of.name
	before, err := b.certificates(ctx, of)
	if err != nil {
		return err
	}
	for _, kind := range []string{"workpullingflow/", "workerpool/"} {
		if err := b.askForRenewal(ctx, b.namespace, kind+of.name); err != nil {
			return err
		}
	}
	return b.serve(ctx, of, before)
}

// serve waits until each pod of a flow serves a certificate that ends later than the one before; all were made by one operator.
func (b *Bed) serve(ctx context.Context, of *flow, before map[string]float64) error {
	var late string
	if !prober.Await(ctx, servedLimit, 5*time.Second, func(ctx context.Context) bool {
		now, err := b.certificates(ctx, of)
		if late = fmt.Sprint(err); err != nil {
			return false
		}
		for uid, ends := range before {
			if after, there := now[uid]; there && after <= ends {
				late = uid
				return false
			}
		}
		return true
	}) {
		return fmt.Errorf("a certificate of %s is not replaced within %s: %s", of.name, servedLimit, late)
	}
	return nil
}

// certificates are the ends of what the pods of a flow serve, by the pods' UIDs.
func (b *Bed) certificates(ctx context.Context, of *flow) (map[string]float64, error) {
	if err := b.view.refresh(ctx); err != nil {
		return nil, err
	}
	ends := map[string]float64{}
	for _, role := range []string{v1alpha1.RoleProducer, v1alpha1.RoleWorker} {
		for _, p := range b.view.pods(of.name, role) {
			at, err := b.metric(ctx, p, certificateEnds)
			if err != nil {
				return nil, err
			}
			ends[p.uid()] = at
		}
	}
	return ends, nil
}

func (b *Bed) askForRenewal(ctx context.Context, namespace, object string) error {
	_, err := b.kubectl.Get(ctx, "-n", namespace, "annotate", "--overwrite", object, v1alpha1.AnnotationRenewBefore+"="+time.Now().UTC().Format(time.RFC3339))
	return err
}

// rotate replaces the certificate authority, and waits until nothing trusts the old one.
func (b *Bed) rotate(ctx context.Context, act *Act) error {
	act.What = authoritySecret
	former, err := b.authority(ctx)
	if err != nil {
		return err
	}
	if err := b.askForRenewal(ctx, harness.SystemNamespace, "secret/"+authoritySecret); err != nil {
		return err
	}
	phase, last := "", ""
	if !prober.Await(ctx, rotationLimit, 5*time.Second, func(ctx context.Context) bool {
		now, err := b.authority(ctx)
		if err != nil {
			return false
		}
		phase, err = b.kubectl.Get(ctx, "-n", harness.SystemNamespace, "get", "secret", authoritySecret, "-o",
			`jsonpath={.metadata.annotations.workpulling\.dev/rotation}`)
		if err == nil && phase != last {
			b.say("    the rotation of the authority is at %s", phase)
			last = phase
		}
		return err == nil && now != former && phase == "None"
	}) {
		return errors.Join(errUndo, fmt.Errorf("the authority is not replaced within %s: it is at %q", rotationLimit, phase))
	}
	return nil
}

// authority is the certificate that signs.
func (b *Bed) authority(ctx context.Context) (string, error) {
	return b.kubectl.Get(ctx, "-n", harness.SystemNamespace, "get", "secret", authoritySecret, "-o", `jsonpath={.data.tls\.crt}`)
}
