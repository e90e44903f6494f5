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
	// foreseen says that it may rest on what is remembered. It must bear to be done again.
	foreseen bool
}

// operation is one write. The flow's row would let one transaction in at a time anyway.
type operation = lane.Operation[deed]

func (q *Queue) write(op *operation) error { return q.explain(op.Ctx, q.lane.Do(op)) }

func (q *Queue) run(group []*operation) ([]error, error) {
	ctx, cancel := groupContext(group)
	defer cancel()
	return q.transact(ctx, group)
}

// refused says that the server itself refused a transaction. Each operation then gets one of its own, so that one that the server cannot
// take does not take the others down with it.
func refused(failure error) bool {
	_, ok := errors.AsType[*pgconn.PgError](failure)
	return ok
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
