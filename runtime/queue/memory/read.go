package memory

import (
	"cmp"
	"context"
	"slices"
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
			if r := q.rows.bySeq[seq]; r != nil && !r.Settled() {
				jobs[i] = clone(r.job)
			}
		}
	})
	return jobs, err
}

// Lookup implements queue.WorkQueue.
func (q *Queue) Lookup(ctx context.Context, messageID string) (state queue.JobState, ok bool, err error) {
	err = q.read(ctx, func() {
		if r := q.rows.byID[messageID]; r != nil {
			state, ok = r.State(), true
		}
	})
	return state, ok, err
}

// ListDeadLetters implements queue.WorkQueue.
func (q *Queue) ListDeadLetters(ctx context.Context, after int64, limit int) ([]queue.DeadLetter, error) {
	entries, err := q.list(ctx, after, limit, func(e ledger.Entry) bool { return e.Status == ledger.DeadLettered })
	letters := make([]queue.DeadLetter, len(entries))
	for i, e := range entries {
		letters[i] = e.DeadLetter()
	}
	return letters, err
}

// ListOrphans implements queue.OrphanKeeper.
func (q *Queue) ListOrphans(ctx context.Context, before time.Time, after int64, limit int) ([]queue.Orphan, error) {
	entries, err := q.list(ctx, after, limit, func(e ledger.Entry) bool { return !e.Accepted && e.StoredAt.Before(before) })
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

// list finds the first limit matching entries above after, ascending. It looks at every entry: nobody calls it for a job.
func (q *Queue) list(ctx context.Context, after int64, limit int, match func(ledger.Entry) bool) ([]ledger.Entry, error) {
	var entries []ledger.Entry
	err := q.read(ctx, func() {
		for seq, r := range q.rows.bySeq {
			if seq > after && match(r.Entry) {
				entries = append(entries, r.Entry)
			}
		}
	})
	slices.SortFunc(entries, func(a, b ledger.Entry) int { return cmp.Compare(a.StoreSeq, b.StoreSeq) })
	return slices.Clone(entries[:min(max(limit, 0), len(entries))]), err
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
