package local

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// ReadJobs implements queue.WorkQueue. It reads the asked jobs and nothing else.
func (q *Queue) ReadJobs(ctx context.Context, seqs []int64) ([]protocol.Job, error) {
	seqs = slices.Clone(seqs)
	return look(ctx, q, func(v *view) ([]protocol.Job, error) { return v.jobs(seqs) })
}

// Lookup implements queue.WorkQueue. What it finds may be told to a submitter as stored: all that can be found is synced.
func (q *Queue) Lookup(ctx context.Context, messageID string) (queue.JobState, bool, error) {
	found, err := look(ctx, q, func(v *view) (*ledger.Entry, error) {
		e, ok, err := v.ByID(messageID)
		if !ok {
			return nil, err
		}
		return &e, err
	})
	if err != nil || found == nil {
		return queue.JobState{}, false, err
	}
	return found.State(), true, nil
}

// ListDeadLetters implements queue.WorkQueue.
func (q *Queue) ListDeadLetters(ctx context.Context, after int64, limit int) ([]queue.DeadLetter, error) {
	if limit < 1 {
		return nil, ctx.Err()
	}
	return look(ctx, q, func(v *view) (letters []queue.DeadLetter, err error) {
		err = v.scan(dead, v.changedFor(dead), after, func(e ledger.Entry) (bool, error) {
			letters = append(letters, e.DeadLetter())
			return len(letters) < limit, nil
		})
		return letters, err
	})
}

// ListOrphans implements queue.OrphanKeeper.
func (q *Queue) ListOrphans(ctx context.Context, before time.Time, after int64, limit int) ([]queue.Orphan, error) {
	return look(ctx, q, func(v *view) ([]queue.Orphan, error) {
		var orphans []queue.Orphan
		changed := v.changed()
		for _, b := range [...]bucket{rows, dead, tombs} {
			found := 0
			if err := v.scan(b, changed, after, func(e ledger.Entry) (bool, error) {
				if found < limit && !e.Accepted && e.StoredAt.Before(before) {
					orphans = append(orphans, e.Orphan())
					found++
				}
				return found < limit, ctx.Err()
			}); err != nil {
				return nil, err
			}
		}
		slices.SortFunc(orphans, func(a, b queue.Orphan) int { return cmp.Compare(a.StoreSeq, b.StoreSeq) })
		return orphans[:min(len(orphans), max(limit, 0))], nil
	})
}

// ListAudit implements queue.Auditor.
func (q *Queue) ListAudit(ctx context.Context, after uint64, limit int) ([]queue.AuditLine, error) {
	return look(ctx, q, func(v *view) ([]queue.AuditLine, error) {
		var newest []queue.AuditLine
		for _, l := range slices.Backward(v.layers) {
			newest = append(newest, l.audit...)
		}
		if n := len(newest); n > 0 { // the tree may still hold lines that they have pushed out
			after = max(after, newest[n-1].Number-min(newest[n-1].Number, queue.MaxAuditLines))
		}
		t, err := v.tree()
		if err != nil {
			return nil, err
		}
		lines, err := t.auditAfter(after, limit)
		for _, line := range newest {
			if len(lines) < limit && line.Number > after && (len(lines) == 0 || line.Number > lines[len(lines)-1].Number) {
				lines = append(lines, line)
			}
		}
		return lines, err
	})
}

func (t *table) auditAfter(after uint64, limit int) ([]queue.AuditLine, error) {
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
}
