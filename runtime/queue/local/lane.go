package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/lane"
)

// deed is what one operation does in a group.
type deed = func(d *draft, now time.Time) error

type operation = lane.Operation[deed]

func (q *Queue) write(ctx context.Context, epoch queue.Epoch, bytes int, do deed) error {
	return q.lane.Do(&operation{Ctx: ctx, Epoch: epoch, Bytes: bytes, Deed: do})
}

// commit writes a group as a whole. If that fails, each operation is a group of its own, so that a large store does not take a small
// confirm down with it.
//
// What finds no room is tried once more when the tree is up to date: jobs that are over give their space back only then.
func (q *Queue) commit(group []*operation) (errs []error, failure error) {
	errs, failure = q.try(group)
	full := func(err error) bool { return errors.Is(err, queue.ErrFull) }
	if failure != nil || !slices.ContainsFunc(errs, full) || !q.pending() || q.drain() != nil {
		return errs, failure
	}
	for i := range group {
		if !full(errs[i]) {
			continue
		}
		again, failure := q.try(group[i : i+1])
		if errs[i] = failure; failure == nil {
			errs[i] = again[0]
		}
	}
	return errs, nil
}

func (q *Queue) try(group []*operation) (errs []error, failure error) {
	failure = q.update(func(d *draft) {
		d.shared = len(group) > 1
		errs = lane.Each(group, func(op *operation) error { return run(op, d, q.clock()) })
	})
	return errs, failure
}

func run(op *operation, d *draft, now time.Time) error {
	if op.Epoch == 0 || op.Epoch != d.state.epoch {
		return fmt.Errorf("%w: epoch %d, the newest is %d", queue.ErrFenced, op.Epoch, d.state.epoch)
	}
	return op.Deed(d, now)
}

// update lets deeds change the queue: what they change is synced, then seen. The caller holds the lane.
func (q *Queue) update(deeds func(*draft)) error {
	return guarded(func() error {
		if err := q.journal.erase(); err != nil {
			return fmt.Errorf("taking back what failed before: %w", err)
		}
		if err := q.confirmTree(); err != nil {
			return fmt.Errorf("writing once more what failed before: %w", err)
		}
		d, done := q.draft()
		defer done()
		deeds(d)
		done()
		if !d.changed {
			return nil
		}
		err := q.sync(&d.changes)
		q.keep(d.changes.rows, q.record)
		if err != nil {
			return fmt.Errorf("committing: %w", err)
		}
		return nil
	})
}

// draft is a view for the holder of the lane. The tree is opened when it is asked for first, and until done.
func (q *Queue) draft() (d *draft, done func()) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	own := newLayer(q.active.state)
	d = &draft{own: own, space: q.space, room: q.room()}
	d.state, d.changes.rows = own.state, q.rows[:0]
	d.layers = append([]*layer{own}, q.layers()...)
	var tx *bolt.Tx
	var t *table
	d.tree = func() (*table, error) {
		if t != nil {
			return t, nil
		}
		var err error
		if tx, err = q.db.Begin(false); err != nil {
			return nil, fmt.Errorf("reading the tree: %w", err)
		}
		t, err = openTable(tx)
		return t, err
	}
	return d, func() {
		if tx != nil {
			_ = tx.Rollback()
			tx = nil
		}
	}
}

// The memory of a group is used again for the next, unless it is larger.
const (
	mostRowsKept  = 4096
	mostBytesKept = 4 << 20
)

func (q *Queue) keep(rows []row, record []byte) {
	if q.rows = nil; cap(rows) <= mostRowsKept {
		clear(rows)
		q.rows = rows
	}
	if q.record = nil; cap(record) <= mostBytesKept {
		q.record = record
	}
}

// layers are those that are not in the tree yet, the newest first. The caller holds the mutex.
func (q *Queue) layers() []*layer {
	if q.frozen == nil {
		return []*layer{q.active}
	}
	return []*layer{q.active, q.frozen}
}

// room is how many bytes the tree may still grow by, beside what the layers hold. The caller holds the mutex.
func (q *Queue) room() int64 {
	room := q.space.room()
	for _, l := range q.layers() {
		room -= l.cost
	}
	return room
}

// sync appends changes to the journal, and to the layer when they are synced there.
func (q *Queue) sync(c *changes) error {
	q.record = appendChanges(newRecord(q.record), c)
	if !q.journal.holds(q.record) {
		return q.bypass(c)
	}
	if !q.journal.fits(q.record) || len(q.active.rows) >= q.mostRows {
		if err := q.freeze(); err != nil {
			return err
		}
	}
	if q.gate != nil {
		if err := q.gate(); err != nil {
			return err
		}
	}
	if err := q.journal.append(q.record); err != nil {
		return err
	}
	q.mu.Lock()
	q.active.add(c)
	q.mu.Unlock()
	return nil
}

// bypass writes to the tree at once what is too large for the journal.
func (q *Queue) bypass(c *changes) error {
	if err := q.drain(); err != nil {
		return err
	}
	if q.gate != nil {
		if err := q.gate(); err != nil {
			return err
		}
	}
	l := newLayer(c.state)
	l.add(c)
	// The engine shows a commit a moment before it is synced: until then nobody looks.
	q.mu.Lock()
	defer q.mu.Unlock()
	before, err := q.readState()
	if err != nil {
		return err
	}
	q.doubtful = true
	if _, err := q.transact(func(t *table) error {
		if err := t.write(l.sorted(), l.state.cursor); err != nil {
			return err
		}
		return t.writeRest(l)
	}); err != nil {
		shown, unread := q.readState()
		q.doubtful = unread != nil || shown != before
		return errors.Join(err, unread)
	}
	q.doubtful, q.active.state = false, c.state
	return nil
}

// readState takes the tree's state for that of the queue, and returns the number of the commit that it is of. Where the last sync of a
// commit fails, the engine shows the commit nevertheless: nothing may go on from the state before. The tree must be up to date.
func (q *Queue) readState() (commit int, err error) {
	err = q.db.View(func(tx *bolt.Tx) error {
		t, err := openTable(tx)
		if err == nil {
			q.active.state, commit = t.state, tx.ID()
		}
		return err
	})
	return commit, err
}

// confirmTree commits once more after a commit that failed and shows: it has to be synced before anything rests on it.
func (q *Queue) confirmTree() error {
	if !q.doubtful {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, err := q.transact(func(t *table) error {
		t.put(t.meta, keyState, encodeState(keyState, t.state))
		return t.failure
	}); err != nil {
		return err
	}
	if _, err := q.readState(); err != nil {
		return err
	}
	q.doubtful = false
	return nil
}

// look is one consistent view of the queue. It runs apart from the caller, who leaves at the context's end. The reader is done with the
// layers when it asks for the tree: reading that may take long, and nothing is written while the layers are read.
func look[T any](ctx context.Context, q *Queue, reader func(*view) (T, error)) (T, error) {
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
			q.mu.RLock()
			unlock := sync.OnceFunc(q.mu.RUnlock)
			defer unlock()
			return q.db.View(func(tx *bolt.Tx) error {
				t, err := openTable(tx)
				if err != nil {
					return err
				}
				a.value, err = reader(&view{layers: q.layers(), tree: func() (*table, error) { unlock(); return t, nil }})
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
