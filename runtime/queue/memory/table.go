package memory

import (
	"hash/maphash"
	"iter"
	"math"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// table holds the entries by id and by sequence, and their number by status. An entry is a record until its deduplication window starts
// and a tombstone from then on.
type table struct {
	ids    index
	pages  pages
	yard   yard
	spare  []*record
	seed   maphash.Seed
	hashed uint32 // the bits of a hash that are used: all, but in a test of what happens when ids share them
	stored int
	dead   int
}

func newTable() *table {
	return &table{pages: newPages(), seed: maphash.MakeSeed(), hashed: math.MaxUint32}
}

// ByID implements ledger.View.
func (t *table) ByID(id string) (ledger.Entry, bool, error) {
	at := t.place(id)
	if at == 0 {
		return ledger.Entry{}, false, nil
	}
	return t.entry(t.pages.at(at))
}

// BySequence implements ledger.View.
func (t *table) BySequence(seq int64) (ledger.Entry, bool, error) { return t.entry(t.pages.find(seq)) }

func (t *table) entry(p *page, i int) (ledger.Entry, bool, error) {
	if r := p.record(i); r != nil {
		return r.Entry, true, nil
	}
	if p == nil || p.tombs[i] == 0 {
		return ledger.Entry{}, false, nil
	}
	return t.yard.at(p.tombs[i]).entry(p.seq(i)), true, nil
}

// place finds an id, 0 if there is none.
func (t *table) place(id string) place {
	return t.ids.find(t.hash(maphash.String(t.seed, id)), func(at place) bool {
		p, i := t.pages.at(at)
		if r := p.record(i); r != nil {
			return r.MessageID == id
		}
		return string(t.yard.at(p.tombs[i]).id) == id
	})
}

func (t *table) hash(sum uint64) uint32 { return uint32(sum>>32) & t.hashed }

// put writes one planned change; job is read only for a new entry.
func (t *table) put(c *ledger.Change, job *protocol.Job) {
	e := &c.After
	stored, dead := c.Growth()
	t.stored += int(stored)
	t.dead += int(dead)
	var at place
	if c.New() {
		at = t.pages.open(e.StoreSeq)
		t.ids.add(t.hash(maphash.String(t.seed, e.MessageID)), at)
	} else {
		at = t.pages.place(e.StoreSeq)
	}
	p, i := t.pages.at(at)
	r := p.record(i)
	if e.Aging() {
		if r != nil {
			t.release(p.takeRecord(i))
		}
		p.tombs[i] = t.yard.bury(e, at)
		return
	}
	if r == nil {
		r = t.record()
		p.setRecord(i, r)
		r.keep(job)
	}
	r.Entry = *e
	if e.Settled() {
		r.forget()
	}
}

// unsettled finds the record of a job that is not over, nil if there is none.
func (t *table) unsettled(seq int64) *record {
	p, i := t.pages.find(seq)
	if r := p.record(i); r != nil && !r.Settled() {
		return r
	}
	return nil
}

// records are the entries that are no tombstones yet and have a sequence above after, ascending.
func (t *table) records(after int64) iter.Seq[*record] { return t.pages.records(after) }

// forget removes the oldest tombstones whose windows are over, at most limit of them, and returns how many.
func (t *table) forget(now time.Time, window time.Duration, limit int) int {
	removed := 0
	for ; removed < limit; removed++ {
		oldest, ok := t.yard.first()
		if !ok || !oldest.expired(now, window) {
			break
		}
		t.ids.remove(t.hash(maphash.Bytes(t.seed, oldest.id)), oldest.job)
		t.pages.close(oldest.job)
		t.yard.removeFirst()
	}
	return removed
}
