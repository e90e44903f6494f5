package local

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// loadChunk is how many rows are read at a time, between calls of the visitor.
const loadChunk = 1024

// Load implements queue.WorkQueue. No commit happens between the first row and the new epoch, and the rows are checked against
// the index and the counters on the way.
func (q *Queue) Load(ctx context.Context, owner string, visit func(queue.Row) error) (queue.State, queue.Epoch, error) {
	if err := q.lane.Hold(ctx); err != nil {
		return queue.State{}, 0, err
	}
	if err := q.visitAll(ctx, visit); err != nil {
		q.lane.Release()
		return queue.State{}, 0, err
	}
	return q.own(ctx, owner)
}

// visitAll visits the rows of the layers and of the tree, which is read a chunk at a time. Nobody adds to the layers meanwhile, and what the
// frozen one says holds after it is in the tree as well. It works on a copy all the same: a read goes on after its caller has left.
func (q *Queue) visitAll(ctx context.Context, visit func(queue.Row) error) error {
	q.mu.RLock()
	state, changed := q.active.state, (&view{layers: q.layers()}).changed()
	q.mu.RUnlock()
	last, seen := int64(0), int64(0)
	for {
		rows, err := look(ctx, q, func(now *view) ([]queue.Row, error) { return now.rowsAfter(changed, last, loadChunk) })
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := visit(row); err != nil {
				return err
			}
			last = row.StoreSeq
		}
		seen += int64(len(rows))
		if len(rows) < loadChunk {
			if seen != state.stored {
				return fmt.Errorf("%w: %d rows, but the store accounts for %d", queue.ErrConflict, seen, state.stored)
			}
			return nil
		}
	}
}

// rowsAfter reads and checks the next rows above a sequence: those of the tree, but for what the changed rows say otherwise.
func (v *view) rowsAfter(changed []row, after int64, limit int) ([]queue.Row, error) {
	var found []queue.Row
	err := v.scan(rows, changed, after, func(e ledger.Entry) (bool, error) {
		found = append(found, e.Row())
		return len(found) < limit, v.indexed(changed, e)
	})
	return found, err
}

// indexed compares an entry with what is found under its id.
func (v *view) indexed(changed []row, e ledger.Entry) error {
	if _, found := slices.BinarySearchFunc(changed, e.StoreSeq, bySeq); found {
		return nil // its id came with it
	}
	t, err := v.tree()
	if err != nil {
		return err
	}
	if seq := keySeq(t.ids.Get([]byte(e.MessageID))); seq != e.StoreSeq {
		return fmt.Errorf("%w: message %q is at sequence %d, but its index says %d", queue.ErrConflict, e.MessageID, e.StoreSeq, seq)
	}
	return nil
}

// own issues the next epoch. The commit runs apart from the caller, who leaves at the context's end; the lane is free
// again when the commit is over.
func (q *Queue) own(ctx context.Context, owner string) (queue.State, queue.Epoch, error) {
	type answer struct {
		state queue.State
		epoch queue.Epoch
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		var a answer
		var refused error
		a.err = q.update(func(d *draft) {
			if a.state, refused = d.issue(owner, q.random); refused == nil {
				a.epoch = d.state.epoch
			}
		})
		q.lane.Release()
		a.err = errors.Join(a.err, refused)
		answers <- a
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			return queue.State{}, 0, a.err
		}
		return a.state, a.epoch, nil
	case <-ctx.Done():
		return queue.State{}, 0, ctx.Err()
	}
}
