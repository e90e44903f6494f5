package postgres

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/workpulling/workpulling/runtime/queue"
)

const (
	// maxGroupBytes bounds the payloads of one shared transaction; a single larger batch is a group of its own.
	maxGroupBytes = 16 << 20
	// maxTransaction bounds a transaction of the lane where its callers set no bound.
	maxTransaction = time.Minute
)

// operation is one write that waits for its place in a transaction. Nothing in it belongs to the caller.
type operation struct {
	ctx   context.Context
	epoch queue.Epoch
	bytes int
	ids   []string       // to fetch by id
	refs  []queue.JobRef // to fetch by sequence, and by id where that leads elsewhere
	alone bool           // shares its transaction with no other
	deed  func(t *transaction, now time.Time) error
	done  chan error // buffered: the answer never waits for a caller that gave up
}

// write hands an operation to the next transaction and waits for its end or the context's. After the context's end the deed may
// still happen, so its results may be read only if write returns nil.
func (q *Queue) write(op *operation) error {
	if err := op.ctx.Err(); err != nil {
		return err
	}
	op.done = make(chan error, 1)
	if err := q.enqueue(op); err != nil {
		return err
	}
	select {
	case err := <-op.done:
		return q.explain(op.ctx, err)
	case <-op.ctx.Done():
		return op.ctx.Err()
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

// flush runs what is pending, group by group, until nothing is. Operations gather while the server is busy: the slower it is, the
// larger the groups. The flow's row would let one transaction in at a time anyway.
func (q *Queue) flush() {
	for {
		q.writing <- struct{}{}
		group := q.takeGroup()
		if group != nil {
			q.run(group)
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
	for n < len(q.pending) && (n == 0 || bytes+q.pending[n].bytes <= maxGroupBytes && !q.pending[n].alone && !q.pending[0].alone) {
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

// run runs a group in one transaction. If that fails, nothing that was said inside it counts, not even a refusal: it may have
// rested on a neighbour that did not happen after all. Where the server itself refused, each operation then gets a transaction of
// its own, so that one that the server cannot take does not take the others down with it.
func (q *Queue) run(group []*operation) {
	ctx, cancel := groupContext(group)
	errs, failure := q.transact(ctx, group)
	cancel()
	var refused *pgconn.PgError
	if len(group) > 1 && errors.As(failure, &refused) {
		for i := range group {
			q.run(group[i : i+1])
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

// groupContext ends when every operation's context has ended, and after maxTransaction at the latest.
func groupContext(group []*operation) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), maxTransaction)
	waiting := new(atomic.Int32)
	waiting.Store(int32(len(group)))
	stops := make([]func() bool, len(group))
	for i, op := range group {
		stops[i] = context.AfterFunc(op.ctx, func() {
			if waiting.Add(-1) == 0 {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}
