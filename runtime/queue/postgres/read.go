package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// Each read is one statement, and so sees one moment.

// ReadJobs implements queue.WorkQueue. It reads the asked jobs and nothing else.
func (q *Queue) ReadJobs(ctx context.Context, seqs []int64) ([]protocol.Job, error) {
	found, err := collect(ctx, q, scanJob, q.sql.readJobs, q.flow, seqs)
	if err != nil {
		return nil, err
	}
	bySeq := make(map[int64]protocol.Job, len(found))
	for _, j := range found {
		bySeq[j.seq] = j.job
	}
	jobs := make([]protocol.Job, len(seqs))
	for i, seq := range seqs {
		jobs[i] = bySeq[seq] // no job where there is none
	}
	return jobs, nil
}

// Lookup implements queue.WorkQueue. The server shows nothing that is not flushed.
func (q *Queue) Lookup(ctx context.Context, messageID string) (queue.JobState, bool, error) {
	found, err := collect(ctx, q, func(row pgx.CollectableRow) (ledger.Entry, error) {
		var accepted bool
		e, err := scanEntryAnd(row, &accepted)
		e.Accepted = e.Accepted || accepted && !e.Settled()
		return e, err
	}, q.sql.lookup, q.flow, []byte(messageID))
	if err != nil || len(found) == 0 {
		return queue.JobState{}, false, err
	}
	// A job comes with the tombstone that it will leave.
	slices.SortFunc(found, func(a, b ledger.Entry) int { return cmp.Compare(a.Status, b.Status) })
	if len(found) > 2 || found[0].JobRef != found[len(found)-1].JobRef || found[0].MessageID != messageID {
		return queue.JobState{}, false, fmt.Errorf("%w: message %q has several rows", queue.ErrConflict, messageID)
	}
	return found[0].State(), true, nil
}

// Owner implements queue.Shared.
func (q *Queue) Owner(ctx context.Context) (queue.Owner, error) {
	owners, err := collect(ctx, q, func(row pgx.CollectableRow) (queue.Owner, error) {
		var epoch int64
		var address []byte
		err := row.Scan(&epoch, &address)
		return queue.Owner{Epoch: queue.Epoch(epoch), Address: string(address)}, err
	}, q.sql.owner, q.flow)
	if err == nil && len(owners) != 1 {
		err = fmt.Errorf("%w: the flow's row is gone", queue.ErrConflict)
	}
	if err != nil {
		return queue.Owner{}, err
	}
	return owners[0], nil
}

// ListDeadLetters implements queue.WorkQueue.
func (q *Queue) ListDeadLetters(ctx context.Context, after int64, limit int) ([]queue.DeadLetter, error) {
	found, err := collect(ctx, q, scanEntry, q.sql.deadLetters, q.flow, after, max(limit, 0))
	letters := make([]queue.DeadLetter, len(found))
	for i, e := range found {
		letters[i] = e.DeadLetter()
	}
	return letters, err
}

// ListOrphans implements queue.OrphanKeeper.
func (q *Queue) ListOrphans(ctx context.Context, before time.Time, after int64, limit int) ([]queue.Orphan, error) {
	found, err := collect(ctx, q, scanEntry, q.sql.orphans, q.flow, after, before.UnixNano(), max(limit, 0))
	slices.SortFunc(found, func(a, b ledger.Entry) int { return cmp.Compare(a.StoreSeq, b.StoreSeq) })
	orphans := make([]queue.Orphan, min(len(found), max(limit, 0)))
	for i := range orphans {
		orphans[i] = found[i].Orphan()
	}
	return orphans, err
}

// ListAudit implements queue.Auditor.
func (q *Queue) ListAudit(ctx context.Context, after uint64, limit int) ([]queue.AuditLine, error) {
	if after > math.MaxInt64 {
		return nil, ctx.Err()
	}
	return collect(ctx, q, func(row pgx.CollectableRow) (queue.AuditLine, error) {
		var (
			line       queue.AuditLine
			number, at int64
			id, text   []byte
		)
		err := row.Scan(&number, &at, &line.Action, &line.StoreSeq, &id, &text)
		line.Number, line.At, line.MessageID, line.Text = uint64(number), fromNanos(at), string(id), string(text)
		return line, err
	}, q.sql.audit, q.flow, int64(after), max(limit, 0))
}

// collect runs one statement and scans all its rows.
func collect[T any](ctx context.Context, q *Queue, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if q.lane.Closed() {
		return nil, errClosed
	}
	rows, err := q.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, q.explain(ctx, fmt.Errorf("reading: %w", err))
	}
	found, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, q.explain(ctx, fmt.Errorf("reading: %w", err))
	}
	return found, nil
}
