package memory

import (
	"context"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// ReadJobs implements queue.WorkQueue.
func (q *Queue) ReadJobs(ctx context.Context, seqs []int64) ([]protocol.Job, error) {
	jobs := make([]protocol.Job, len(seqs))
	err := q.read(ctx, func() {
		for i, seq := range seqs {
			if r := q.rows.unsettled(seq); r != nil {
				jobs[i] = r.job()
			}
		}
	})
	return jobs, err
}

// Lookup implements queue.WorkQueue.
func (q *Queue) Lookup(ctx context.Context, messageID string) (state queue.JobState, ok bool, err error) {
	err = q.read(ctx, func() {
		if e, found, _ := q.rows.ByID(messageID); found { // a map cannot fail
			state, ok = e.State(), true
		}
	})
	return state, ok, err
}

// ListDeadLetters implements queue.WorkQueue.
func (q *Queue) ListDeadLetters(ctx context.Context, after int64, limit int) ([]queue.DeadLetter, error) {
	entries, err := q.list(ctx, after, limit, func(e *ledger.Entry) bool { return e.Status == ledger.DeadLettered })
	letters := make([]queue.DeadLetter, len(entries))
	for i, e := range entries {
		letters[i] = e.DeadLetter()
	}
	return letters, err
}

// ListOrphans implements queue.OrphanKeeper.
func (q *Queue) ListOrphans(ctx context.Context, before time.Time, after int64, limit int) ([]queue.Orphan, error) {
	entries, err := q.list(ctx, after, limit, func(e *ledger.Entry) bool { return !e.Accepted && e.StoredAt.Before(before) })
	orphans := make([]queue.Orphan, len(entries))
	for i, e := range entries {
		orphans[i] = e.Orphan()
	}
	return orphans, err
}

// ListAudit implements queue.Auditor.
func (q *Queue) ListAudit(ctx context.Context, after uint64, limit int) ([]queue.AuditLine, error) {
	var lines []queue.AuditLine
	err := q.read(ctx, func() { lines = q.audit.list(after, limit) })
	return lines, err
}

// list finds the first limit matching entries above after, ascending, among those that are no tombstones. It may look at all of them:
// nobody calls it for a job.
func (q *Queue) list(ctx context.Context, after int64, limit int, match func(*ledger.Entry) bool) ([]ledger.Entry, error) {
	var entries []ledger.Entry
	err := q.read(ctx, func() {
		for r := range q.rows.records(after) {
			if len(entries) >= limit {
				return
			}
			if match(&r.Entry) {
				entries = append(entries, r.Entry)
			}
		}
	})
	return entries, err
}

func (q *Queue) read(ctx context.Context, look func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.RLock()
	defer q.mu.RUnlock()
	if q.closed {
		return errClosed
	}
	look()
	return nil
}
