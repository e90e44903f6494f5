package intake

import (
	"context"
	"errors"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// closed tells whether the flow turned a submission away without a look whether its id is known: at the door, or
// together with others that the queue has no room for.
func closed(err error) bool {
	_, busy := errors.AsType[*endpoint.NoCreditError](err)
	_, full := errors.AsType[*endpoint.QueueFullError](err)
	return busy || full || errors.Is(err, endpoint.ErrSuspended)
}

// recall answers a submission that was turned away as the repeat that it may be: a job that is stored needs no credit to be told
// so. An unknown id leaves the refusal as it is. There is no receipt, so whether the id may be forgotten one day stays as it was.
func (i *Intake) recall(ctx context.Context, a *answer, digest queue.Digest) {
	state, err := i.options.Flow.Lookup(ctx, a.id)
	switch {
	case errors.Is(err, endpoint.ErrNotFound):
		return
	case err != nil:
		a.err = err
		return
	}
	a.err, a.state = nil, state.Status
	a.stored = protocol.Stored{MessageID: a.id, StoreSeq: state.StoreSeq, Verdict: protocol.AlreadyStored}
	if state.Digest != digest {
		a.state, a.stored.Verdict, a.err = "", protocol.BodyMismatch, kindMismatch.problem()
	}
}

// whereabouts tells a dead letter from one that a person dropped; the queue's answer to a repeat does not.
func (i *Intake) whereabouts(ctx context.Context, id string) string {
	state, err := i.options.Flow.Lookup(ctx, id)
	if err != nil {
		return queue.StatusDeadLettered // as the queue said just now
	}
	return state.Status
}
