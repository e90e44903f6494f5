package endpoint

import (
	"context"
	"fmt"
	"slices"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/queue"
)

// Settled says how a job ended.
type Settled struct {
	DeadLettered bool
	Reason       string
}

// waiters are the callers of Wait by store sequence. Each gets one word at most: how its job ended, or that this producer will
// never know.
type waiters map[int64][]chan verdict

// verdict is the word.
type verdict struct {
	settled Settled
	err     error
}

func (w waiters) settle(a delivery.JobSettled) {
	if len(w) == 0 {
		return
	}
	for _, waiter := range w[a.Ref.StoreSeq] {
		waiter <- verdict{settled: Settled{DeadLettered: a.DeadLettered, Reason: a.Reason}}
	}
	delete(w, a.Ref.StoreSeq)
}

// refuseAll answers everyone who waits.
func (w waiters) refuseAll(err error) {
	for _, callers := range w {
		for _, waiter := range callers {
			waiter <- verdict{err: err}
		}
	}
	clear(w)
}

func (w waiters) remove(seq int64, waiter chan verdict) {
	left := slices.DeleteFunc(w[seq], func(other chan verdict) bool { return other == waiter })
	if len(left) == 0 {
		delete(w, seq)
		return
	}
	w[seq] = left
}

// Wait returns when the job is settled for good, or is a dead letter, and that is durable. ErrNotFound: the job is not known,
// or settled so long ago that it is forgotten. ErrUnavailable: this producer stopped or failed before that, so that it will
// never know; the job is stored all the same.
func (p *Producer) Wait(ctx context.Context, ref queue.JobRef) (Settled, error) {
	waiter := make(chan verdict, 1)
	if err := p.loop.call(ctx, func() { p.addWaiter(ref.StoreSeq, waiter) }); err != nil {
		return Settled{}, err
	}
	defer p.loop.post(func() { p.waiters.remove(ref.StoreSeq, waiter) })
	// It may have happened before: look once, now that nothing can be missed.
	state, err := p.Lookup(ctx, ref.MessageID)
	switch {
	case err != nil:
		return Settled{}, err
	case state.Status == queue.StatusConfirmed:
		return Settled{}, nil
	case state.Status == queue.StatusDeadLettered:
		return Settled{DeadLettered: true, Reason: state.Reason}, nil
	case state.Status == queue.StatusDropped:
		return Settled{DeadLettered: true, Reason: "dropped"}, nil
	}
	select {
	case v := <-waiter:
		return v.settled, v.err
	case <-p.loop.done:
	case <-ctx.Done():
	}
	select { // the truth beats the end of patience
	case v := <-waiter:
		return v.settled, v.err
	default:
	}
	if err := ctx.Err(); err != nil {
		return Settled{}, err
	}
	return Settled{}, ErrUnavailable
}

func (p *Producer) addWaiter(seq int64, waiter chan verdict) {
	if p.failure != nil {
		waiter <- verdict{err: ErrUnavailable}
		return
	}
	p.waiters[seq] = append(p.waiters[seq], waiter)
}

// Lookup finds a job by its id, settled ones within the deduplication window included; ErrNotFound otherwise.
func (p *Producer) Lookup(ctx context.Context, messageID string) (queue.JobState, error) {
	ctx, cancel := context.WithTimeout(ctx, p.operationTimeout())
	defer cancel()
	state, ok, err := p.options.Queue.Lookup(ctx, messageID)
	switch {
	case err != nil:
		return queue.JobState{}, fmt.Errorf("%w: looking up a job: %w", ErrUnavailable, err)
	case !ok:
		return queue.JobState{}, ErrNotFound
	}
	return state, nil
}
