package endpoint

import (
	"context"
	"errors"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/queue"
)

// resolve finds out what became of jobs that a worker has finished and the Controller does not hold, and confirms those of them
// that lie among the dead letters. What cannot be told now is left out, and the worker claims it again. A confirm whose answer is lost
// is looked at again until it is known, and so is a job that no worker would claim again: else nobody would count the dead letter out.
func (p *Producer) resolve(a delivery.ResolveClaims) {
	p.operate(p.operationTimeout(), true, func(context.Context) (delivery.Event, func()) {
		tried := map[queue.JobRef]bool{}
		for wait := insistAfter; ; wait = min(2*wait, insistAtMost) {
			event, doubt := p.resolveOnce(a, tried)
			if !doubt {
				return event, nil
			}
			select {
			case <-p.lane.base.Done():
				return event, nil
			case <-p.options.Clock.After(wait):
			}
		}
	})
}

// resolveOnce is one try. tried are the jobs whose confirm may have happened before; doubt tells that some are left of which nobody knows.
func (p *Producer) resolveOnce(a delivery.ResolveClaims, tried map[queue.JobRef]bool) (event delivery.ClaimsResolved, doubt bool) {
	event = delivery.ClaimsResolved{Epoch: a.Epoch, PodUID: a.PodUID, BindingID: a.BindingID}
	var letters []queue.JobRef
	for _, ref := range a.Refs {
		state, found, err := p.lookup(ref)
		if err != nil {
			doubt = doubt || tried[ref] || a.PodUID == ""
			continue
		}
		switch known := found && state.StoreSeq == ref.StoreSeq; {
		case known && state.Status == queue.StatusDeadLettered:
			letters = append(letters, ref)
		case tried[ref] && (!known || state.Status == queue.StatusConfirmed):
			event.Confirmed, event.Ended = append(event.Confirmed, ref), append(event.Ended, ref)
		case !known || state.Status != queue.StatusStored:
			event.Ended = append(event.Ended, ref)
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
	case errors.Is(err, queue.ErrFenced), errors.Is(err, queue.ErrConflict), errors.Is(err, queue.ErrUnsupportedFormat):
		return event, false
	default:
		for _, ref := range letters {
			tried[ref] = true
		}
		return event, true
	}
}
