package local

import (
	"context"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/lane"
)

// deed is what one operation does in a transaction.
type deed = func(t *table, now time.Time) error

type operation = lane.Operation[deed]

func (q *Queue) write(ctx context.Context, epoch queue.Epoch, bytes int, do deed) error {
	return q.lane.Do(&operation{Ctx: ctx, Epoch: epoch, Bytes: bytes, Deed: do})
}

// commit runs a group in one transaction. If that fails, each operation gets a transaction of its own, so that on a full disk a large
// store does not take a small confirm down with it.
func (q *Queue) commit(group []*operation) (errs []error, failure error) {
	failure = q.update(func(t *table) {
		errs = lane.Each(group, func(op *operation) error { return run(op, t, q.clock()) })
	})
	return errs, failure
}

func run(op *operation, t *table, now time.Time) error {
	if op.Epoch == 0 || op.Epoch != t.state.epoch {
		return fmt.Errorf("%w: epoch %d, the newest is %d", queue.ErrFenced, op.Epoch, t.state.epoch)
	}
	return op.Deed(t, now)
}

// update is one transaction; it is committed only if something changed. The caller holds the lane.
func (q *Queue) update(deeds func(*table)) error {
	return guarded(func() error {
		stats := q.db.Stats()
		tx, err := q.db.Begin(true)
		if err != nil {
			return fmt.Errorf("beginning a transaction: %w", err)
		}
		defer func() { _ = tx.Rollback() }() // after a commit there is nothing left to roll back
		t, err := openTable(tx)
		if err != nil {
			return err
		}
		t.space, t.room = q.space, q.space.room(stats, tx)
		deeds(t)
		if err := t.finish(); err != nil || !t.changed {
			return err
		}
		q.committing <- struct{}{}
		defer func() { <-q.committing }()
		if q.gate != nil {
			if err := q.gate(); err != nil {
				return fmt.Errorf("committing: %w", err)
			}
		}
		if err := tx.Commit(); err != nil {
			return fmt.Errorf("committing: %w", err)
		}
		return nil
	})
}

// synced waits for the end of the commit that is under way, if one is: a view may see it a moment before it is synced.
func (q *Queue) synced(ctx context.Context) error {
	select {
	case q.committing <- struct{}{}:
		<-q.committing
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// look is one consistent view of the file. It runs apart from the caller, who leaves at the context's end.
func look[T any](ctx context.Context, q *Queue, reader func(*table) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	answers := make(chan answer, 1)
	go func() {
		var a answer
		a.err = guarded(func() error {
			return q.db.View(func(tx *bolt.Tx) error {
				t, err := openTable(tx)
				if err != nil {
					return err
				}
				a.value, err = reader(t)
				return err
			})
		})
		answers <- a
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			return none, a.err
		}
		return a.value, nil
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
