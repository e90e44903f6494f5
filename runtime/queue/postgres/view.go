package postgres

import (
	"errors"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// view is what a transaction has read, with what its operations changed so far laid over it. It implements ledger.View for the ids
// and sequences that were fetched; asking for another one is a mistake of this package.
type view struct {
	byID  map[string]*held
	bySeq map[int64]*held
	asked map[string]bool // ids that were fetched by id, or are known to be absent
	seqs  map[int64]bool  // sequences that were fetched
	order []*held
}

// held is one entry, as it was read and as it is now.
type held struct {
	before, after ledger.Entry // before has sequence 0 for a new entry
	body          body         // of a new entry
	dirty         bool
}

var errNotFetched = errors.New("postgres queue: an entry was asked for that was not fetched")

func newView() *view {
	return &view{byID: map[string]*held{}, bySeq: map[int64]*held{}, asked: map[string]bool{}, seqs: map[int64]bool{}}
}

// read notes a fetched entry.
func (v *view) read(e ledger.Entry) {
	if v.bySeq[e.StoreSeq] == nil {
		v.add(&held{before: e, after: e})
	}
}

func (v *view) add(h *held) {
	v.byID[h.after.MessageID], v.bySeq[h.after.StoreSeq] = h, h
	v.order = append(v.order, h)
}

// put lays a change over what was read.
func (v *view) put(change ledger.Change, b body) {
	h := v.bySeq[change.After.StoreSeq]
	if h == nil {
		h = &held{body: b}
		h.after = change.After
		v.add(h)
	}
	h.after, h.dirty = change.After, true
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
	if !v.asked[id] {
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
