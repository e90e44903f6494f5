package endpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/queue"
)

// ListDeadLetters returns at most limit dead letters with a store sequence above after, ascending.
func (p *Producer) ListDeadLetters(ctx context.Context, after int64, limit int) ([]queue.DeadLetter, error) {
	ctx, cancel := context.WithTimeout(ctx, p.operationTimeout())
	defer cancel()
	letters, err := p.options.Queue.ListDeadLetters(ctx, after, limit)
	return letters, queueError("listing dead letters", err)
}

// Redrive puts a dead letter back among the stored jobs, its attempts reset. audit says who and why. ErrNotFound if it is none.
func (p *Producer) Redrive(ctx context.Context, ref queue.JobRef, audit string) error {
	return p.settleLetter(ctx, "re-driving a dead letter", func(ctx context.Context, epoch queue.Epoch) (delivery.Event, error) {
		row, err := p.options.Queue.Redrive(ctx, epoch, ref, audit)
		return delivery.Redriven{Row: row}, err
	})
}

// Drop settles a dead letter for good. audit says who and why. ErrNotFound if it is none.
func (p *Producer) Drop(ctx context.Context, ref queue.JobRef, audit string) error {
	return p.settleLetter(ctx, "dropping a dead letter", func(ctx context.Context, epoch queue.Epoch) (delivery.Event, error) {
		return delivery.Dropped{Ref: ref}, p.options.Queue.Drop(ctx, epoch, ref, audit)
	})
}

// settleLetter writes a person's decision and tells the controller. The write has no deadline of its own: one that happens after
// its caller was told that the outcome is not known must reach the controller too, or the job would wait for the next load.
func (p *Producer) settleLetter(ctx context.Context, doing string, write func(context.Context, queue.Epoch) (delivery.Event, error)) error {
	ctx, cancel := context.WithTimeout(ctx, p.operationTimeout())
	defer cancel()
	written := make(chan error, 1)
	err := p.loop.call(ctx, func() {
		if p.controller == nil || p.failure != nil || p.controller.Stats().Epoch == 0 {
			written <- ErrUnavailable
			return
		}
		epoch := p.controller.Stats().Epoch
		p.lane.running.Go(func() {
			event, err := write(p.lane.base, epoch)
			if err == nil {
				p.loop.post(func() { p.step(event) })
			}
			written <- err
		})
	})
	if err != nil {
		return queueError(doing, err)
	}
	select {
	case err := <-written:
		return queueError(doing, err)
	case <-ctx.Done():
		return queueError(doing, ctx.Err())
	}
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
