package local

import (
	"context"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/workpulling/workpulling/runtime/queue"
)

// maxGroupBytes bounds the payloads of one shared commit; a single larger batch is a group of its own.
const maxGroupBytes = 16 << 20

// operation is one write that waits for its place in a commit. Nothing in it belongs to the caller.
type operation struct {
	ctx   context.Context
	epoch queue.Epoch
	bytes int
	deed  func(t *table, now time.Time) error
	done  chan error // buffered: the answer never waits for a caller that gave up
}

// write hands a deed to the next commit and waits for its end or the context's. After the context's end the deed may still
// happen, so its results may be read only if write returns nil.
func (q *Queue) write(ctx context.Context, epoch queue.Epoch, bytes int, deed func(t *table, now time.Time) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	op := &operation{ctx: ctx, epoch: epoch, bytes: bytes, deed: deed, done: make(chan error, 1)}
	if err := q.enqueue(op); err != nil {
		return err
	}
	select {
	case err := <-op.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *Queue) enqueue(op *operation) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errClosed
	}
	q.pending = append(q.pending, op)
	if !q.running {
		q.running = true
		q.flusher.Go(q.flush)
	}
	return nil
}

// flush commits what is pending, group by group, until nothing is. Operations gather while the disk is busy: the slower it is,
// the larger the groups.
func (q *Queue) flush() {
	for {
		q.writing <- struct{}{}
		group := q.takeGroup()
		if group != nil {
			q.commit(group)
		}
		<-q.writing
		if group == nil {
			return
		}
	}
}

// takeGroup takes the head of the line; with nothing in it, it ends the flusher.
func (q *Queue) takeGroup() []*operation {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for n < len(q.pending) && (n == 0 || bytes+q.pending[n].bytes <= maxGroupBytes) {
		bytes += q.pending[n].bytes
		n++
	}
	group := q.pending[:n:n]
	q.pending = q.pending[n:]
	if n == 0 {
		q.running, q.pending, group = false, nil, nil
	}
	return group
}

func (q *Queue) takeAll() []*operation {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.pending
	q.pending = nil
	return all
}

// commit runs a group in one transaction. If that fails, nothing that was said inside it counts, not even a refusal: it may have
// rested on a neighbour that did not happen after all. Each operation then gets a transaction of its own, so that on a full
// disk a large store does not take a small confirm down with it.
func (q *Queue) commit(group []*operation) {
	errs := make([]error, len(group))
	failure := q.update(func(t *table) {
		for i, op := range group {
			if errs[i] = op.ctx.Err(); errs[i] == nil {
				errs[i] = op.run(t, q.clock())
			}
		}
	})
	if failure != nil && len(group) > 1 {
		for i := range group {
			q.commit(group[i : i+1])
		}
		return
	}
	for i, op := range group {
		if failure != nil {
			errs[i] = failure
		}
		op.done <- errs[i]
	}
}

func (op *operation) run(t *table, now time.Time) error {
	if op.epoch == 0 || op.epoch != t.state.epoch {
		return fmt.Errorf("%w: epoch %d, the newest is %d", queue.ErrFenced, op.epoch, t.state.epoch)
	}
	return op.deed(t, now)
}

// update is one transaction; it is committed only if something changed. The caller holds the semaphore.
func (q *Queue) update(deeds func(*table)) error {
	return guarded(func() error {
		tx, err := q.db.Begin(true)
		if err != nil {
			return fmt.Errorf("beginning a transaction: %w", err)
		}
		defer func() { _ = tx.Rollback() }() // after a commit there is nothing left to roll back
		t, err := openTable(tx)
		if err != nil {
			return err
		}
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
