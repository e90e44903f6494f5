package standalone

import (
	"context"
	"slices"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/sharedsecret"
	"github.com/workpulling/workpulling/runtime/transport"
)

// submitter is the name of who holds the intake's token, or reaches its socket. It scopes the idempotency keys.
const submitter = "local"

// identity decides who may bind to a flow: the replicas of its pools, each with the secret of the run.
type identity struct {
	*sharedsecret.Authenticator
	workers map[string]delivery.Worker
}

var _ transport.Authenticator = (*identity)(nil)

func (p *plan) identity(secret *sharedsecret.Authenticator, flow string) *identity {
	id := &identity{Authenticator: secret, workers: map[string]delivery.Worker{}}
	for _, pool := range p.pools {
		if !slices.Contains(pool.Spec.Flows, flow) {
			continue
		}
		for i := range pool.replicas {
			name := pool.name(i)
			id.workers[name] = delivery.Worker{PodUID: name, PodName: name, Pool: pool.Name}
		}
	}
	return id
}

// AuthenticateWorker implements transport.Authenticator.
func (i *identity) AuthenticateWorker(ctx context.Context, token string) (delivery.Worker, error) {
	named, err := i.Authenticator.AuthenticateWorker(ctx, token)
	if err != nil {
		return delivery.Worker{}, err
	}
	worker, ok := i.workers[named.PodName]
	if !ok {
		return delivery.Worker{}, &transport.Refusal{
			Code: protocol.RefusedIdentity, Label: transport.LabelPodUnknown, Reason: named.PodName + " is no replica of a pool of this flow",
		}
	}
	return worker, nil
}
