package ledger

import (
	"fmt"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// View is what a store holds at one moment. Entries of every status are found, tombstones included.
type View interface {
	ByID(id string) (Entry, bool, error)
	BySequence(seq int64) (Entry, bool, error)
}

// Change is one entry that a batch creates or alters. The store writes After, moving the entry between its indexes where the
// two differ; when After is settled and Before was not, the job's bytes go.
type Change struct {
	// Before has StoreSeq 0 for a new entry.
	Before, After Entry
	// Job is the index in Batch.Stores of a new entry's bytes, and -1 for an old entry. The bytes are to be written only if After
	// is not settled.
	Job int
}

// New tells whether the entry did not exist before.
func (c Change) New() bool { return c.Before.StoreSeq == 0 }

// Plan says what a legal batch does: one Change an entry, ascending in the order of first touch.
type Plan struct {
	Changes []Change
	Result  queue.Result
}

// Apply plans one batch against a store whose append cursor is cursor. An error of the view is returned as it is; every other
// error wraps queue.ErrConflict.
func Apply(view View, cursor int64, batch Batch, now time.Time) (Plan, error) {
	p := newPlanner(view, cursor, now)
	stores, err := p.stores(batch)
	if err != nil {
		return Plan{}, err
	}
	for _, ref := range batch.accepts {
		if err := p.each("accept", ref, func(e *Entry) bool { return e.accept(p.now) }); err != nil {
			return Plan{}, err
		}
	}
	for _, r := range batch.attempts {
		if err := p.each("record attempt", r.JobRef, func(e *Entry) bool { return e.attempt(r) }); err != nil {
			return Plan{}, err
		}
	}
	for _, r := range batch.deadLetters {
		if err := p.each("dead-letter", r.JobRef, func(e *Entry) bool { return e.bury(r, p.now) }); err != nil {
			return Plan{}, err
		}
	}
	for _, ref := range batch.confirms {
		if err := p.each("confirm", ref, func(e *Entry) bool { return e.settle(Confirmed, p.now) }); err != nil {
			return Plan{}, err
		}
	}
	return Plan{Changes: p.changes(), Result: queue.Result{Cursor: p.cursor, Stores: stores}}, nil
}

// Redrive plans putting a dead letter back among the stored jobs. queue.ErrNotFound if ref is none.
func Redrive(view View, ref queue.JobRef) (Change, error) {
	return alter(view, ref, func(e *Entry) bool {
		if e.Status != DeadLettered {
			return false
		}
		e.Status, e.Attempts, e.Uncounted, e.Reason, e.Since = Stored, 0, 0, "", time.Time{}
		return true
	})
}

// Drop plans settling a dead letter without a confirm. queue.ErrNotFound if ref is none.
func Drop(view View, ref queue.JobRef, now time.Time) (Change, error) {
	return alter(view, ref, func(e *Entry) bool {
		return e.Status == DeadLettered && e.settle(Dropped, stamp(now))
	})
}

// AcceptOrphan plans a person's accept of a job. queue.ErrNotFound if ref is no orphan.
func AcceptOrphan(view View, ref queue.JobRef, now time.Time) (Change, error) {
	return alter(view, ref, func(e *Entry) bool { return e.accept(stamp(now)) })
}

func alter(view View, ref queue.JobRef, deed func(*Entry) bool) (Change, error) {
	before, ok, err := view.ByID(ref.MessageID)
	if err != nil {
		return Change{}, err
	}
	after := before
	if !ok || before.StoreSeq != ref.StoreSeq || !deed(&after) {
		return Change{}, fmt.Errorf("%w: message %q with sequence %d", queue.ErrNotFound, ref.MessageID, ref.StoreSeq)
	}
	return Change{Before: before, After: after, Job: -1}, nil
}

// stamp drops the monotonic reading and the zone, so that a time equals itself after a restart.
func stamp(now time.Time) time.Time { return now.UTC().Round(0) }

// planner carries the working copies of one batch.
type planner struct {
	view   View
	now    time.Time
	cursor int64
	byID   map[string]*draft
	bySeq  map[int64]*draft
	order  []*draft
}

type draft struct {
	Change
	dirty bool
}

func newPlanner(view View, cursor int64, now time.Time) *planner {
	return &planner{view: view, now: stamp(now), cursor: cursor, byID: map[string]*draft{}, bySeq: map[int64]*draft{}}
}

func (p *planner) stores(batch Batch) ([]queue.StoreResult, error) {
	var results []queue.StoreResult
	start := p.cursor
	for i, s := range batch.submissions {
		d, err := p.find(s.id)
		if err != nil {
			return nil, err
		}
		if d != nil {
			results = append(results, queue.StoreResult{StoreSeq: d.After.StoreSeq, Verdict: d.After.verdict(s.digest)})
			continue
		}
		if batch.cursor != start {
			return nil, fmt.Errorf("%w: new message %q proposed after cursor %d, the cursor is %d", queue.ErrConflict, s.id, batch.cursor, start)
		}
		if p.cursor >= protocol.MaxSequence {
			return nil, fmt.Errorf("%w: the sequence space is used up", queue.ErrConflict)
		}
		results = append(results, queue.StoreResult{StoreSeq: p.append(i, s), Verdict: protocol.StoredNew})
	}
	return results, nil
}

func (p *planner) append(job int, s submission) int64 {
	p.cursor++
	p.keep(&draft{dirty: true, Change: Change{Job: job, After: Entry{
		JobRef: queue.JobRef{MessageID: s.id, StoreSeq: p.cursor},
		Digest: s.digest, Status: Stored, PayloadBytes: s.payloadBytes, StoredAt: p.now,
	}}})
	return p.cursor
}

// each applies a deed to the entry that ref names. A pair that is gone is a repeat after compaction and a no-op, also when its id
// was stored anew since; a pair that the store can prove never to have issued is a conflict (G-128, G-129, G-X07).
func (p *planner) each(what string, ref queue.JobRef, deed func(*Entry) bool) error {
	d, err := p.find(ref.MessageID)
	if err != nil {
		return err
	}
	if d != nil && d.After.StoreSeq == ref.StoreSeq {
		d.dirty = deed(&d.After) || d.dirty
		return nil
	}
	if d != nil && ref.StoreSeq > d.After.StoreSeq {
		return fmt.Errorf("%w: %s: message %q has sequence %d, not %d", queue.ErrConflict, what, ref.MessageID, d.After.StoreSeq, ref.StoreSeq)
	}
	if ref.MessageID == "" || ref.StoreSeq < 1 || ref.StoreSeq > p.cursor {
		return fmt.Errorf("%w: %s: message %q with sequence %d was never issued", queue.ErrConflict, what, ref.MessageID, ref.StoreSeq)
	}
	holder, err := p.holder(ref.StoreSeq)
	if err != nil {
		return err
	}
	if holder != nil {
		return fmt.Errorf("%w: %s: sequence %d belongs to another message than %q", queue.ErrConflict, what, ref.StoreSeq, ref.MessageID)
	}
	return nil
}

func (p *planner) find(id string) (*draft, error) {
	if d := p.byID[id]; d != nil {
		return d, nil
	}
	e, ok, err := p.view.ByID(id)
	if err != nil || !ok {
		return nil, err
	}
	return p.keep(&draft{Change: Change{Before: e, After: e, Job: -1}}), nil
}

func (p *planner) holder(seq int64) (*draft, error) {
	if d := p.bySeq[seq]; d != nil {
		return d, nil
	}
	e, ok, err := p.view.BySequence(seq)
	if err != nil || !ok {
		return nil, err
	}
	return p.keep(&draft{Change: Change{Before: e, After: e, Job: -1}}), nil
}

func (p *planner) keep(d *draft) *draft {
	p.byID[d.After.MessageID], p.bySeq[d.After.StoreSeq] = d, d
	p.order = append(p.order, d)
	return d
}

func (p *planner) changes() []Change {
	var changes []Change
	for _, d := range p.order {
		if d.dirty {
			changes = append(changes, d.Change)
		}
	}
	return changes
}
