package endpoint

import (
	"context"
	"sync"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/queue"
)

// letters keeps what is decided about dead letters apart: whether one was there to be confirmed or dropped can be told only where nobody
// else does so in between.
type letters struct {
	mu sync.Mutex
	// tried are the confirms that may have happened before; the one who finds them done tells of them.
	tried map[triedLetter]bool
}

// triedLetter is of one epoch: what happened under an older one is counted by the load.
type triedLetter struct {
	epoch queue.Epoch
	ref   queue.JobRef
}

// resolve finds out what became of jobs that a worker has finished and the Controller does not hold, and confirms those of them
// that lie among the dead letters. It goes on until it knows: the worker may not claim them again for long, and a dead letter whose
// confirm has lost its answer would be counted for ever. The same job may be asked about more than once at a time, for several workers
// and for the Controller itself.
func (p *Producer) resolve(a delivery.ResolveClaims) {
	p.operate(p.operationTimeout(), true, func(context.Context) (delivery.Event, func()) {
		var event delivery.ClaimsResolved
		p.repeat(func(bool) (done bool) {
			event, done = p.resolveOnce(a)
			return done
		})
		return event, nil
	})
}

// resolveOnce is one try; it is done if it found out about every job. One that is not has told nothing.
func (p *Producer) resolveOnce(a delivery.ResolveClaims) (event delivery.ClaimsResolved, done bool) {
	l := &p.letters
	l.mu.Lock()
	defer l.mu.Unlock()
	event = delivery.ClaimsResolved{Epoch: a.Epoch, PodUID: a.PodUID, BindingID: a.BindingID}
	var found []queue.JobRef
	for _, ref := range a.Refs {
		state, known, err := p.lookup(ref)
		if err != nil {
			return event, false
		}
		switch known = known && state.StoreSeq == ref.StoreSeq; {
		case known && state.Status == queue.StatusDeadLettered:
			found = append(found, ref)
		case l.tried[triedLetter{a.Epoch, ref}] && (!known || state.Status == queue.StatusConfirmed):
			event.Confirmed, event.Ended = append(event.Confirmed, ref), append(event.Ended, ref)
		case !known || state.Status != queue.StatusStored:
			event.Ended = append(event.Ended, ref)
			if known && state.Status == queue.StatusDropped {
				event.Dropped = append(event.Dropped, ref)
			}
		}
	}
	if len(found) > 0 {
		err := p.within(func(ctx context.Context) error {
			_, err := p.options.Queue.Apply(ctx, a.Epoch, queue.Batch{Confirms: found})
			return err
		})
		switch {
		case err == nil:
			event.Confirmed, event.Ended = append(event.Confirmed, found...), append(event.Ended, found...)
		case !queue.Terminal(err):
			for _, ref := range found {
				l.tried[triedLetter{a.Epoch, ref}] = true
			}
			return event, false
		}
	}
	for _, ref := range a.Refs {
		delete(l.tried, triedLetter{a.Epoch, ref})
	}
	return event, true
}
