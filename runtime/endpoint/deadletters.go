package endpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// ListDeadLetters returns at most limit dead letters with a store sequence above after, ascending.
func (p *Producer) ListDeadLetters(ctx context.Context, after int64, limit int) ([]queue.DeadLetter, error) {
	ctx, cancel := context.WithTimeout(ctx, p.operationTimeout())
	defer cancel()
	letters, err := p.options.Queue.ListDeadLetters(ctx, after, limit)
	return letters, queueError("listing dead letters", err)
}

// ReadJob returns the job of a sequence that is stored or a dead letter; ErrNotFound if it is settled or was never issued.
func (p *Producer) ReadJob(ctx context.Context, seq int64) (protocol.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, p.operationTimeout())
	defer cancel()
	jobs, err := p.options.Queue.ReadJobs(ctx, []int64{seq})
	switch {
	case err != nil:
		return protocol.Job{}, queueError("reading a job", err)
	case jobs[0].MessageID == "":
		return protocol.Job{}, ErrNotFound
	}
	return jobs[0], nil
}

// Redrive puts a dead letter back among the stored jobs, its attempts reset. audit says who and why. ErrNotFound if it is none.
func (p *Producer) Redrive(ctx context.Context, ref queue.JobRef, audit string) error {
	return p.settleLetter(ctx, ref, "re-driving a dead letter", func(epoch queue.Epoch) (delivery.Event, error) {
		var row queue.Row
		err := p.insist(ref, queue.StatusStored, func(ctx context.Context) (err error) {
			row, err = p.options.Queue.Redrive(ctx, epoch, ref, audit)
			return err
		})
		if err == nil && row.StoreSeq == 0 { // an earlier try did it, and its answer was lost
			err = p.insist(ref, queue.StatusStored, func(ctx context.Context) (err error) {
				row, err = p.rowOf(ctx, ref)
				return err
			})
		}
		return delivery.Redriven{Epoch: epoch, Row: row}, err
	})
}

// Drop settles a dead letter for good. audit says who and why. ErrNotFound if it is none.
func (p *Producer) Drop(ctx context.Context, ref queue.JobRef, audit string) error {
	return p.settleLetter(ctx, ref, "dropping a dead letter", func(epoch queue.Epoch) (delivery.Event, error) {
		return delivery.Dropped{Epoch: epoch, Ref: ref}, p.insist(ref, queue.StatusDropped, func(ctx context.Context) error {
			p.letters.mu.Lock()
			defer p.letters.mu.Unlock()
			return p.options.Queue.Drop(ctx, epoch, ref, audit)
		})
	})
}

// settleLetter writes a person's decision and tells the controller. It goes on after its caller was told that the outcome is not
// known: a decision that may have happened must reach the controller, or the job would wait for the next load.
func (p *Producer) settleLetter(ctx context.Context, ref queue.JobRef, doing string, write func(queue.Epoch) (delivery.Event, error)) error {
	ctx, cancel := context.WithTimeout(ctx, p.operationTimeout())
	defer cancel()
	written := make(chan error, 1)
	for {
		held, err := p.beginDecision(ctx, ref, written, write)
		if err != nil {
			return queueError(doing, err)
		}
		var retry <-chan time.Time
		if held {
			retry = p.options.Clock.After(insistAfter)
		}
		select {
		case err := <-written:
			return queueError(doing, err)
		case <-ctx.Done():
			return queueError(doing, ctx.Err())
		case <-retry:
		}
	}
}

// beginDecision starts the write of a decision, unless the controller still holds the job: it does not know yet that its dead letter is
// written, and might write it again after the decision. Nor does it start beside another one, or neither could tell which of them it was
// that happened.
func (p *Producer) beginDecision(ctx context.Context, ref queue.JobRef, written chan<- error, write func(queue.Epoch) (delivery.Event, error)) (held bool, err error) {
	err = p.loop.call(ctx, func() {
		if p.controller == nil || p.failure != nil || p.controller.Stats().Epoch == 0 {
			written <- ErrUnavailable
			return
		}
		if _, held = p.controller.Holds(ref); held || p.deciding[ref] {
			held = true
			return
		}
		epoch := p.controller.Stats().Epoch
		p.deciding[ref] = true
		p.lane.running.Go(func() {
			event, err := write(epoch)
			p.loop.post(func() {
				delete(p.deciding, ref)
				if err == nil {
					p.step(event)
				}
			})
			written <- err
		})
	})
	return held, err
}

// insist repeats a decision until the queue gives a definite answer: an error that is none of the queue's own leaves open whether
// it happened. A repeat that finds no dead letter any more then asks whether the earlier try has made it what it should become. One that
// it dropped may be forgotten by then.
// A fenced epoch ends the matter: the load that fenced it has seen what happened. So does what no repeat can heal, such as a damaged row.
func (p *Producer) insist(ref queue.JobRef, becomes string, decide func(context.Context) error) error {
	var err error
	p.repeat(func(again bool) (done bool) {
		switch err = p.within(decide); {
		case err == nil, queue.Terminal(err):
			return true
		case !errors.Is(err, queue.ErrNotFound):
			return false
		case !again:
			return true
		}
		state, found, lookErr := p.lookup(ref)
		if lookErr != nil {
			return false
		}
		found = found && state.StoreSeq == ref.StoreSeq
		if found && state.Status == becomes || !found && becomes == queue.StatusDropped {
			err = nil
		}
		return true
	})
	return err
}

// repeat tries until it is done or the producer ends, slower and slower.
func (p *Producer) repeat(try func(again bool) (done bool)) {
	for wait := insistAfter; !try(wait > insistAfter); wait = min(2*wait, insistAtMost) {
		select {
		case <-p.lane.base.Done():
			return
		case <-p.options.Clock.After(wait):
		}
	}
}

// The pauses between tries.
const (
	insistAfter  = 100 * time.Millisecond
	insistAtMost = 10 * time.Second
)

// within gives one operation of the queue its deadline.
func (p *Producer) within(operation func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(p.lane.base, p.operationTimeout())
	defer cancel()
	return operation(ctx)
}

func (p *Producer) lookup(ref queue.JobRef) (state queue.JobState, found bool, err error) {
	err = p.within(func(ctx context.Context) (err error) {
		state, found, err = p.options.Queue.Lookup(ctx, ref.MessageID)
		return err
	})
	return state, found, err
}

// rowOf is the row of a stored job, as Redrive would have returned it.
func (p *Producer) rowOf(ctx context.Context, ref queue.JobRef) (queue.Row, error) {
	state, found, err := p.options.Queue.Lookup(ctx, ref.MessageID)
	if err != nil {
		return queue.Row{}, err
	}
	jobs, err := p.options.Queue.ReadJobs(ctx, []int64{ref.StoreSeq})
	if err != nil {
		return queue.Row{}, err
	}
	if !found || len(jobs) != 1 || jobs[0].MessageID != ref.MessageID {
		return queue.Row{}, queue.ErrNotFound
	}
	return queue.Row{JobRef: ref, PayloadBytes: len(jobs[0].Payload), Accepted: state.Accepted, Attempts: state.Attempts}, nil
}

func queueError(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, queue.ErrNotFound):
		return ErrNotFound
	default:
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, doing, err)
	}
}
