package endpoint

import (
	"context"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/queue"
)

// resolve finds out what became of jobs that a worker has finished and the Controller does not hold, and confirms those of them
// that lie among the dead letters. What cannot be told now is left out, and the worker claims it again.
func (p *Producer) resolve(a delivery.ResolveClaims) {
	p.operate(p.operationTimeout(), true, func(ctx context.Context) (delivery.Event, func()) {
		event := delivery.ClaimsResolved{Epoch: a.Epoch, PodUID: a.PodUID, BindingID: a.BindingID}
		var letters []queue.JobRef
		for _, ref := range a.Refs {
			state, found, err := p.options.Queue.Lookup(ctx, ref.MessageID)
			if err != nil {
				continue
			}
			switch known := found && state.StoreSeq == ref.StoreSeq; {
			case known && state.Status == queue.StatusDeadLettered:
				letters = append(letters, ref)
			case !known || state.Status != queue.StatusStored:
				event.Ended = append(event.Ended, ref)
			}
		}
		if len(letters) > 0 {
			if _, err := p.options.Queue.Apply(ctx, a.Epoch, queue.Batch{Confirms: letters}); err == nil {
				event.Confirmed = letters
				event.Ended = append(event.Ended, letters...)
			}
		}
		return event, nil
	})
}
