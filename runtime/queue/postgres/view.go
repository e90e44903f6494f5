package postgres

import (
	"errors"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// view is what a transaction has read or takes for granted, with what its operations changed so far laid over it. It implements
// ledger.View for the ids and sequences that were fetched; asking for another one is an error.
type view struct {
	byID  map[string]*held
	bySeq map[int64]*held // nil where nothing was fetched
	asked map[string]bool // ids that were fetched by id, or are known to be absent
	seqs  map[int64]bool  // sequences that were fetched
	order []*held

	memory map[string]*held // not nil: what is not in it is taken for absent
}

// held is one entry as it is now, and what became of it since it was read.
type held struct {
	after   ledger.Entry
	body    body // of a new entry
	fresh   bool // there was none before
	settled bool // it was a tombstone before
	dirty   bool
	altered bool // in more than that it is accepted now
}

var errNotFetched = errors.New("postgres queue: an entry was asked for that was not fetched")

func newView() *view {
	return &view{byID: map[string]*held{}, bySeq: map[int64]*held{}, asked: map[string]bool{}, seqs: map[int64]bool{}}
}

// rememberedView is one of what the last transaction left, for about size entries.
func rememberedView(memory map[string]*held, size int) *view {
	return &view{byID: make(map[string]*held, size), order: make([]*held, 0, size), memory: memory}
}

// read notes a fetched entry. A job wins over the tombstone that it will leave.
func (v *view) read(e ledger.Entry) {
	if known := v.bySeq[e.StoreSeq]; known == nil {
		v.add(&held{after: e, settled: e.Settled()})
	} else if known.settled && !e.Settled() {
		known.after, known.settled = e, false
	}
}

func (v *view) add(h *held) {
	v.byID[h.after.MessageID] = h
	if v.bySeq != nil {
		v.bySeq[h.after.StoreSeq] = h
	}
	v.order = append(v.order, h)
}

// put lays a change over what was read.
func (v *view) put(change ledger.Change, b body) {
	h, before := v.byID[change.After.MessageID], change.Before
	if h == nil {
		before = newborn(change.After)
		h = &held{after: change.After, body: b, fresh: true}
		v.add(h)
	}
	before.Accepted = change.After.Accepted
	h.after, h.dirty, h.altered = change.After, true, h.altered || before != change.After
}

// newborn is an entry as its insertion writes it.
func newborn(e ledger.Entry) ledger.Entry {
	return ledger.Entry{JobRef: e.JobRef, Digest: e.Digest, Status: ledger.Stored, PayloadBytes: e.PayloadBytes, StoredAt: e.StoredAt}
}

// tombstone is what an entry leaves if nothing special happens to it; its row is written together with that of the job.
func tombstone(e ledger.Entry) ledger.Entry {
	return ledger.Entry{JobRef: e.JobRef, Digest: e.Digest, Status: ledger.Confirmed, Accepted: true, StoredAt: e.StoredAt}
}

// plain tells whether a settled entry has left just that.
func plain(e ledger.Entry) bool {
	return e.Status == ledger.Confirmed && e.Accepted && e.Attempts == 0 && e.Uncounted == 0
}

// missing are the ids of refs that their sequence did not lead to: only those need a look by id.
func (v *view) missing(refs []queue.JobRef) (ids []string) {
	for _, ref := range refs {
		if v.byID[ref.MessageID] == nil && !v.asked[ref.MessageID] {
			v.asked[ref.MessageID] = true
			ids = append(ids, ref.MessageID)
		}
	}
	return ids
}

// ByID implements ledger.View.
func (v *view) ByID(id string) (ledger.Entry, bool, error) {
	if h := v.byID[id]; h != nil {
		return h.after, true, nil
	}
	if h := v.memory[id]; h != nil {
		v.add(&held{after: h.after, settled: h.after.Settled()})
		return h.after, true, nil
	}
	if v.memory == nil && !v.asked[id] {
		return ledger.Entry{}, false, errNotFetched
	}
	return ledger.Entry{}, false, nil
}

// BySequence implements ledger.View.
func (v *view) BySequence(seq int64) (ledger.Entry, bool, error) {
	if h := v.bySeq[seq]; h != nil {
		return h.after, true, nil
	}
	if !v.seqs[seq] {
		return ledger.Entry{}, false, errNotFetched
	}
	return ledger.Entry{}, false, nil
}
