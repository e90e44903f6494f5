package local

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// ReadJobs implements queue.WorkQueue. It reads the asked jobs and nothing else.
func (q *Queue) ReadJobs(ctx context.Context, seqs []int64) ([]protocol.Job, error) {
	seqs = slices.Clone(seqs)
	return look(ctx, q, func(t *table) ([]protocol.Job, error) {
		jobs := make([]protocol.Job, len(seqs))
		for i, seq := range seqs {
			job, err := t.job(seq)
			if err != nil {
				return nil, err
			}
			jobs[i] = job
		}
		return jobs, nil
	})
}

// Lookup implements queue.WorkQueue. What it finds may be told to a submitter as stored, so it is synced by then.
func (q *Queue) Lookup(ctx context.Context, messageID string) (queue.JobState, bool, error) {
	found, err := look(ctx, q, func(t *table) (*ledger.Entry, error) {
		e, ok, err := t.ByID(messageID)
		if !ok {
			return nil, err
		}
		return &e, err
	})
	if err != nil || found == nil {
		return queue.JobState{}, false, err
	}
	if err := q.synced(ctx); err != nil {
		return queue.JobState{}, false, err
	}
	return found.State(), true, nil
}

// ListDeadLetters implements queue.WorkQueue.
func (q *Queue) ListDeadLetters(ctx context.Context, after int64, limit int) ([]queue.DeadLetter, error) {
	return look(ctx, q, func(t *table) (letters []queue.DeadLetter, err error) {
		err = t.scan(t.dead, after, func(e ledger.Entry) bool {
			if len(letters) >= limit {
				return false
			}
			letters = append(letters, e.DeadLetter())
			return true
		})
		return letters, err
	})
}

// ListOrphans implements queue.OrphanKeeper.
func (q *Queue) ListOrphans(ctx context.Context, before time.Time, after int64, limit int) ([]queue.Orphan, error) {
	return look(ctx, q, func(t *table) ([]queue.Orphan, error) {
		var orphans []queue.Orphan
		for _, b := range []*bolt.Bucket{t.rows, t.dead, t.tombs} {
			found := 0
			if err := t.scan(b, after, func(e ledger.Entry) bool {
				if found < limit && !e.Accepted && e.StoredAt.Before(before) {
					orphans = append(orphans, e.Orphan())
					found++
				}
				return found < limit && ctx.Err() == nil
			}); err != nil {
				return nil, err
			}
		}
		slices.SortFunc(orphans, func(a, b queue.Orphan) int { return cmp.Compare(a.StoreSeq, b.StoreSeq) })
		return orphans[:min(len(orphans), max(limit, 0))], nil
	})
}

// scan visits the entries of a bucket above a sequence, ascending, until told to stop.
func (t *table) scan(b *bolt.Bucket, after int64, visit func(ledger.Entry) bool) error {
	if after == math.MaxInt64 {
		return nil
	}
	cursor := b.Cursor()
	for key, record := cursor.Seek(seqKey(max(after, 0) + 1)); key != nil; key, record = cursor.Next() {
		e, err := t.decode(b, key, record)
		if err != nil {
			return err
		}
		if !visit(e) {
			return nil
		}
	}
	return nil
}

// ListAudit implements queue.Auditor.
func (q *Queue) ListAudit(ctx context.Context, after uint64, limit int) ([]queue.AuditLine, error) {
	return look(ctx, q, func(t *table) ([]queue.AuditLine, error) {
		var lines []queue.AuditLine
		if after == math.MaxUint64 {
			return nil, nil
		}
		cursor := t.audit.Cursor()
		key, record := cursor.Seek(binary.BigEndian.AppendUint64(nil, after+1))
		for ; key != nil && len(lines) < limit; key, record = cursor.Next() {
			line, err := decodeAudit(key, record)
			if err != nil {
				return nil, fmt.Errorf("%w: audit line %x: %w", queue.ErrConflict, key, err)
			}
			lines = append(lines, line)
		}
		return lines, nil
	})
}
