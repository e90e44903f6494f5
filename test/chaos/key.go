package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/test/harness"
	"github.com/workpulling/workpulling/test/prober"
)

// replaceKey rotates the key that signs the tokens of ServiceAccounts, with an overlap: the new one is known before it signs, and the old one
// until no pod holds a token of it. Each step starts the API server anew.
func (b *Bed) replaceKey(ctx context.Context, act *Act) error {
	former, err := harness.SigningKey(b.bearer())
	if err != nil {
		return err
	}
	act.What = former
	always := context.WithoutCancel(ctx) // half a rotation cannot be undone
	for _, step := range []func() error{
		func() error { return b.cluster.Run(always, "signing-key", "add") },
		func() error { return b.cluster.Run(always, "signing-key", "use") },
		func() error { return b.startAnew(always, "kubelet") },
		func() error {
			return b.await(ctx, "the submitters have a new token", func() bool { return b.authenticate(ctx) == nil })
		},
		func() error { return b.forgotten(ctx, former) },
		func() error { return b.cluster.Run(always, "signing-key", "retire") },
	} {
		if err := step(); err != nil {
			return errors.Join(errUndo, err)
		}
	}
	return b.await(ctx, "the API server answers again", func() bool { return true })
}

// startAnew starts components of each node anew. A kubelet that starts asks for tokens for all of its pods.
func (b *Bed) startAnew(ctx context.Context, components ...string) error {
	for _, node := range b.nodes {
		for _, verb := range []string{"stop", "start"} {
			if err := b.cluster.Run(ctx, append([]string{verb, node}, components...)...); err != nil {
				return err
			}
		}
	}
	return nil
}

// forgotten waits until no token of a key is in a volume of a pod of ours.
func (b *Bed) forgotten(ctx context.Context, key string) error {
	var held error
	if !prober.Await(ctx, servedLimit, 2*time.Second, func(ctx context.Context) bool {
		held = b.holdsNone(ctx, key)
		return held == nil
	}) {
		return fmt.Errorf("tokens of the former key are in use after %s: %w", servedLimit, held)
	}
	return nil
}

func (b *Bed) holdsNone(ctx context.Context, key string) error {
	for _, namespace := range []string{b.namespace, harness.SystemNamespace} {
		var pods corev1.PodList
		if err := b.client.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, p := range pods.Items {
			files, err := b.cluster.Tokens(ctx, p.Spec.NodeName, string(p.UID))
			if err != nil {
				return err
			}
			for _, file := range files {
				token, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				if signer, err := harness.SigningKey(string(token)); err != nil || signer == key {
					return errors.Join(err, fmt.Errorf("%s has %s", p.Name, file))
				}
			}
		}
	}
	return nil
}
