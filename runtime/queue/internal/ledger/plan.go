package ledger

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"
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

// Growth is by how much the change raises the numbers of stored and of dead-lettered jobs. Tombstones are not counted.
func (c *Change) Growth() (stored, dead int64) {
	is := func(e *Entry, status Status) int64 {
		if e.Status == status {
			return 1
		}
		return 0
	}
	return is(&c.After, Stored) - is(&c.Before, Stored), is(&c.After, DeadLettered) - is(&c.Before, DeadLettered)
}

// Plan says what a legal batch does: one Change an entry, ascending in the order of first touch.
type Plan struct {
	Changes []Change
	Result  queue.Result
	planner *planner
}

// Release gives the memory of Changes to the next plan. Nothing may refer to them afterwards; a plan that is not released costs its memory.
func (p Plan) Release() {
	if p.planner != nil && cap(p.planner.touched) <= mostKept {
		clear(p.planner.touched)
		clear(p.planner.slots)
		p.planner.view = nil // the pool keeps no store alive
		planners.Put(p.planner)
	}
}

// planners are those of released plans, each with room for at most mostKept entries.
var planners = sync.Pool{New: func() any { return &planner{} }}

const mostKept = 4096

// Apply plans one batch against a store whose append cursor is cursor. An error of the view is returned as it is; every other
// error wraps queue.ErrConflict.
func Apply(view View, cursor int64, batch Batch, now time.Time) (Plan, error) {
	p := newPlanner(view, cursor, &batch, now)
	stores, err := p.stores(&batch)
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
	return Plan{Changes: p.changes(), Result: queue.Result{Cursor: p.cursor, Stores: stores}, planner: p}, nil
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

// planner carries the working copies of one batch. Nearly every batch touches each of its jobs once, so that the copies of all are made
// room for at once, and those that were altered are the plan.
type planner struct {
	view    View
	now     time.Time
	start   int64 // the cursor before the batch
	cursor  int64
	touched []Change
	altered []bool  // of touched
	slots   []int32 // an open-addressed table of the ids in touched: one more than the index there, 0 is free
}

// seed keeps whoever chooses ids from choosing such that share slots. No plan depends on it.
var seed = maphash.MakeSeed()

func newPlanner(view View, cursor int64, batch *Batch, now time.Time) *planner {
	p, size := planners.Get().(*planner), batch.size()
	p.view, p.now, p.start, p.cursor = view, stamp(now), cursor, cursor
	p.touched, p.altered = slices.Grow(p.touched[:0], size), slices.Grow(p.altered[:0], size)
	if slots := 2 << bits.Len(uint(size)); slots <= cap(p.slots) {
		p.slots = p.slots[:slots]
	} else {
		p.slots = make([]int32, slots)
	}
	return p
}

// none is the index of what is not there.
const none = -1

func (p *planner) stores(batch *Batch) ([]queue.StoreResult, error) {
	if batch.submissions() == 0 {
		return nil, nil
	}
	results := make([]queue.StoreResult, 0, batch.submissions())
	for i := range batch.submissions() {
		s := batch.submission(i)
		n, err := p.find(s.id)
		if err != nil {
			return nil, err
		}
		if n != none {
			known := &p.touched[n].After
			results = append(results, queue.StoreResult{StoreSeq: known.StoreSeq, Verdict: known.verdict(s.digest)})
			continue
		}
		if batch.cursor != p.start {
			return nil, fmt.Errorf("%w: new message %q proposed after cursor %d, the cursor is %d", queue.ErrConflict, s.id, batch.cursor, p.start)
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
	c := p.touch(p.slot(s.id))
	c.Job, c.After = job, Entry{
		JobRef: queue.JobRef{MessageID: s.id, StoreSeq: p.cursor},
		Digest: s.digest, Status: Stored, PayloadBytes: s.payloadBytes, StoredAt: p.now,
	}
	p.altered[len(p.altered)-1] = true
	return p.cursor
}

// each applies a deed to the entry that ref names. A pair that is gone is a repeat after compaction and a no-op, also when its id
// was stored anew since; a pair that the store can prove never to have issued is a conflict (G-128, G-129, G-X07).
func (p *planner) each(what string, ref queue.JobRef, deed func(*Entry) bool) error {
	n, err := p.find(ref.MessageID)
	if err != nil {
		return err
	}
	if n != none {
		entry := &p.touched[n].After
		if entry.StoreSeq == ref.StoreSeq {
			p.altered[n] = deed(entry) || p.altered[n]
			return nil
		}
		if ref.StoreSeq > entry.StoreSeq {
			return fmt.Errorf("%w: %s: message %q has sequence %d, not %d", queue.ErrConflict, what, ref.MessageID, entry.StoreSeq, ref.StoreSeq)
		}
	}
	if ref.MessageID == "" || ref.StoreSeq < 1 || ref.StoreSeq > p.cursor {
		return fmt.Errorf("%w: %s: message %q with sequence %d was never issued", queue.ErrConflict, what, ref.MessageID, ref.StoreSeq)
	}
	held, err := p.held(ref.StoreSeq)
	if err != nil {
		return err
	}
	if held {
		return fmt.Errorf("%w: %s: sequence %d belongs to another message than %q", queue.ErrConflict, what, ref.StoreSeq, ref.MessageID)
	}
	return nil
}

// find returns the index of an entry's working copy.
func (p *planner) find(id string) (int, error) {
	slot := p.slot(id)
	if *slot != 0 {
		return int(*slot) - 1, nil
	}
	e, ok, err := p.view.ByID(id)
	if err != nil || !ok {
		return none, err
	}
	c := p.touch(slot)
	c.Before, c.After, c.Job = e, e, -1
	return int(*slot) - 1, nil
}

// slot is where the index of the id is, or would be put.
func (p *planner) slot(id string) *int32 {
	mask := uint64(len(p.slots) - 1)
	for at := maphash.String(seed, id); ; at++ {
		slot := &p.slots[at&mask]
		if *slot == 0 || p.touched[*slot-1].After.MessageID == id {
			return slot
		}
	}
}

// touch adds an empty working copy, whose id is to have the slot.
func (p *planner) touch(slot *int32) *Change {
	p.touched, p.altered = append(p.touched, Change{}), append(p.altered, false)
	*slot = int32(len(p.touched))
	return &p.touched[len(p.touched)-1]
}

// held tells whether an entry has the sequence. It is asked about repeats alone.
func (p *planner) held(seq int64) (bool, error) {
	if seq > p.start && seq <= p.cursor { // issued by this batch
		return true, nil
	}
	_, ok, err := p.view.BySequence(seq)
	return ok, err
}

// changes moves those that were altered together.
func (p *planner) changes() []Change {
	n := 0
	for i := range p.touched {
		if p.altered[i] {
			if n < i {
				p.touched[n] = p.touched[i]
			}
			n++
		}
	}
	return p.touched[:n]
}
