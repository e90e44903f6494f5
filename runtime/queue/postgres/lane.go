package postgres

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/lane"
)

// maxTransaction bounds a transaction of the lane where its callers set no bound.
const maxTransaction = time.Minute

// deed is what one operation does in a transaction, and what has to be fetched for it.
type deed struct {
	ids  []string       // to fetch by id
	refs []queue.JobRef // to fetch by sequence, and by id where that leads elsewhere
	do   func(t *transaction, now time.Time) error
}

// operation is one write. The flow's row would let one transaction in at a time anyway.
type operation = lane.Operation[deed]

func (q *Queue) write(op *operation) error { return q.explain(op.Ctx, q.lane.Do(op)) }

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
		op.End(errs[i])
	}
}

// groupContext ends when every operation's context has ended, and after maxTransaction at the latest.
func groupContext(group []*operation) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), maxTransaction)
	waiting := new(atomic.Int32)
	waiting.Store(int32(len(group)))
	stops := make([]func() bool, len(group))
	for i, op := range group {
		stops[i] = context.AfterFunc(op.Ctx, func() {
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
