package memory

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// table holds the entries by id and by sequence, and their number by status.
type table struct {
	byID   map[string]*record
	bySeq  map[int64]*record
	stored int
	dead   int
}

type record struct {
	ledger.Entry
	job protocol.Job // empty once settled
}

func newTable() table { return table{byID: map[string]*record{}, bySeq: map[int64]*record{}} }

// ByID implements ledger.View.
func (t *table) ByID(id string) (ledger.Entry, bool, error) { return t.byID[id].entry() }

// BySequence implements ledger.View.
func (t *table) BySequence(seq int64) (ledger.Entry, bool, error) { return t.bySeq[seq].entry() }

func (r *record) entry() (ledger.Entry, bool, error) {
	if r == nil {
		return ledger.Entry{}, false, nil
	}
	return r.Entry, true, nil
}

func (t *table) put(before, after ledger.Entry, job protocol.Job) {
	t.count(before.Status, -1)
	t.count(after.Status, +1)
	r := t.byID[after.MessageID]
	if r == nil {
		r = &record{job: clone(job)}
		t.byID[after.MessageID], t.bySeq[after.StoreSeq] = r, r
	}
	r.Entry = after
	if after.Settled() {
		r.job = protocol.Job{}
	}
}

func (t *table) remove(ref queue.JobRef) {
	delete(t.byID, ref.MessageID)
	delete(t.bySeq, ref.StoreSeq)
}

func (t *table) count(status ledger.Status, by int) {
	switch status {
	case ledger.Stored:
		t.stored += by
	case ledger.DeadLettered:
		t.dead += by
	default: // tombstones are not counted
	}
}

func clone(job protocol.Job) protocol.Job {
	return protocol.Job{MessageID: job.MessageID, Headers: maps.Clone(job.Headers), Payload: bytes.Clone(job.Payload)}
}

// trail keeps the newest queue.MaxAuditLines audit lines.
type trail struct {
	lines []queue.AuditLine
	last  uint64
}

func (t *trail) add(line queue.AuditLine) {
	t.last++
	line.Number = t.last
	t.lines = append(t.lines, line)
	t.lines = t.lines[max(0, len(t.lines)-queue.MaxAuditLines):]
}

func (t *trail) list(after uint64, limit int) []queue.AuditLine {
	start, found := slices.BinarySearchFunc(t.lines, after, func(l queue.AuditLine, n uint64) int { return cmp.Compare(l.Number, n) })
	if found {
		start++
	}
	rest := t.lines[start:]
	return slices.Clone(rest[:min(max(limit, 0), len(rest))])
}
