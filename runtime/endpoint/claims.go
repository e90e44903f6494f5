package endpoint

import (
	"context"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/queue"
)

// resolve finds out what became of jobs that a worker has finished and the Controller does not hold, and confirms those of them
// that lie among the dead letters. It goes on until it knows: the worker may not claim them again for long, and a dead letter whose
// confirm has lost its answer would be counted for ever. The Controller asks for one binding once at a time.
func (p *Producer) resolve(a delivery.ResolveClaims) {
	p.operate(p.operationTimeout(), true, func(context.Context) (delivery.Event, func()) {
		var event delivery.ClaimsResolved
		tried := map[queue.JobRef]bool{}
		p.repeat(func(bool) (done bool) {
			var doubt bool
			event, doubt = p.resolveOnce(a, tried)
			return !doubt
		})
		return event, nil
	})
}

// resolveOnce is one try. tried are the jobs whose confirm may have happened before; doubt tells that some are left of which nobody knows.
func (p *Producer) resolveOnce(a delivery.ResolveClaims, tried map[queue.JobRef]bool) (event delivery.ClaimsResolved, doubt bool) {
	event = delivery.ClaimsResolved{Epoch: a.Epoch, PodUID: a.PodUID, BindingID: a.BindingID}
	var letters []queue.JobRef
	for _, ref := range a.Refs {
		state, found, err := p.lookup(ref)
		if err != nil {
			doubt = true
			continue
		}
		switch known := found && state.StoreSeq == ref.StoreSeq; {
		case known && state.Status == queue.StatusDeadLettered:
			letters = append(letters, ref)
		case tried[ref] && (!known || state.Status == queue.StatusConfirmed):
			event.Confirmed, event.Ended = append(event.Confirmed, ref), append(event.Ended, ref)
		case !known || state.Status != queue.StatusStored:
			event.Ended = append(event.Ended, ref)
			if known && state.Status == queue.StatusDropped {
				event.Dropped = append(event.Dropped, ref)
			}
		}
	}
	if len(letters) == 0 {
		return event, doubt
	}
	err := p.within(func(ctx context.Context) error {
		_, err := p.options.Queue.Apply(ctx, a.Epoch, queue.Batch{Confirms: letters})
		return err
	})
	switch {
	case err == nil:
		event.Confirmed, event.Ended = append(event.Confirmed, letters...), append(event.Ended, letters...)
		return event, doubt
	case queue.Terminal(err):
		return event, false
	default:
		for _, ref := range letters {
			tried[ref] = true
		}
		return event, true
	}
}
