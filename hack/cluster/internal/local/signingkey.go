package local

import (
	"context"

	"github.com/workpulling/workpulling/hack/cluster/internal/pki"
	"github.com/workpulling/workpulling/hack/cluster/internal/progress"
)

// signers know the key of ServiceAccount tokens.
var signers = []string{"kube-controller-manager", apiServer}

// AddSigningKey makes another key for ServiceAccount tokens, which the API server accepts from now on and publishes.
func (c *Cluster) AddSigningKey(ctx context.Context, say *progress.Printer) error {
	return c.without(ctx, say, signers, c.signingKeys().Add)
}

// UseSigningKey lets the added key sign. Tokens of the former key stay good.
func (c *Cluster) UseSigningKey(ctx context.Context, say *progress.Printer) error {
	return c.without(ctx, say, signers, c.signingKeys().Use)
}

// RetireSigningKey ends the former key: its tokens are worth nothing any more.
func (c *Cluster) RetireSigningKey(ctx context.Context, say *progress.Printer) error {
	return c.without(ctx, say, signers, c.signingKeys().Retire)
}

func (c *Cluster) signingKeys() pki.SigningKeys {
	return pki.SigningKeys{Dir: c.Dir.member(controlPlane, "kubernetes", "pki")}
}
