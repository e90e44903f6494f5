package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/workpulling/workpulling/runtime/queue"
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

// chunk is a run of rows in ascending sequence, and the state of the moment.
type chunk struct {
	rows  []queue.Row
	state state
}

func (q *Queue) visitAll(ctx context.Context, visit func(queue.Row) error) error {
	last, seen := int64(0), int64(0)
	for {
		c, err := look(ctx, q, func(t *table) (chunk, error) { return t.rowsAfter(last, loadChunk) })
		if err != nil {
			return err
		}
		for _, row := range c.rows {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := visit(row); err != nil {
				return err
			}
			last = row.StoreSeq
		}
		seen += int64(len(c.rows))
		if len(c.rows) < loadChunk {
			if seen != c.state.stored {
				return fmt.Errorf("%w: %d rows, but the store accounts for %d", queue.ErrConflict, seen, c.state.stored)
			}
			return nil
		}
	}
}

// rowsAfter reads and checks the next rows above a sequence. From the start it also meets keys that no sequence can have.
func (t *table) rowsAfter(after int64, limit int) (chunk, error) {
	c := chunk{state: t.state}
	cursor := t.rows.Cursor()
	key, record := cursor.First()
	if after > 0 {
		key, record = cursor.Seek(seqKey(after + 1))
	}
	for ; key != nil && len(c.rows) < limit; key, record = cursor.Next() {
		e, err := t.decode(t.rows, key, record)
		if err != nil {
			return chunk{}, err
		}
		if index := t.ids.Get([]byte(e.MessageID)); !bytes.Equal(index, key) {
			return chunk{}, fmt.Errorf("%w: message %q is at sequence %d, but its index says %x", queue.ErrConflict, e.MessageID, e.StoreSeq, index)
		}
		c.rows = append(c.rows, e.Row())
	}
	return c, nil
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
		a.err = q.update(func(t *table) {
			if a.state, refused = t.own(owner, q.random); refused == nil {
				a.epoch = t.state.epoch
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

// own changes nothing if it returns an error.
func (t *table) own(owner string, random io.Reader) (queue.State, error) {
	workers, err := t.readWorkers()
	if err != nil {
		return queue.State{}, err
	}
	secret, err := t.secret(random)
	if err != nil {
		return queue.State{}, err
	}
	t.state.epoch++
	t.state.owner, t.changed = owner, true
	return queue.State{Cursor: t.state.cursor, DeadLetters: t.state.dead, Format: Format, Secret: secret, Workers: workers}, nil
}
