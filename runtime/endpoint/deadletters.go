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

func (p *Producer) settleLetter(ctx context.Context, doing string, operation func(context.Context, queue.Epoch) (delivery.Event, error)) error {
	var epoch queue.Epoch
	var generation uint64
	if err := p.loop.call(ctx, func() {
		generation = p.generation
		if p.controller != nil && p.failure == nil {
			epoch = p.controller.Stats().Epoch
		}
	}); err != nil {
		return err
	}
	if epoch == 0 {
		return fmt.Errorf("%s: %w", doing, ErrUnavailable)
	}
	// A caller that goes away must not separate the write from the event about it.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.operationTimeout())
	defer cancel()
	event, err := operation(bounded, epoch)
	if err != nil {
		return queueError(doing, err)
	}
	p.loop.post(func() {
		if generation == p.generation {
			p.step(event)
		}
	})
	return nil
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
