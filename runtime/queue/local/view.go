package local

import (
	"cmp"
	"math"
	"slices"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// view is the queue at one moment: the layers that are not in the tree yet, the newest first, and the tree.
type view struct {
	layers []*layer
	tree   func() (*table, error)
}

// row is the newest that the layers say about a sequence, or nil.
func (v *view) row(seq int64) *row {
	for _, l := range v.layers {
		if r := l.rows[seq]; r != nil {
			return r
		}
	}
	return nil
}

// ByID implements ledger.View.
func (v *view) ByID(id string) (ledger.Entry, bool, error) {
	for _, l := range v.layers {
		if r := l.ids[id]; r != nil {
			return r.Entry, !r.gone, nil
		}
	}
	t, err := v.tree()
	if err != nil {
		return ledger.Entry{}, false, err
	}
	return t.ByID(id)
}

// BySequence implements ledger.View.
func (v *view) BySequence(seq int64) (ledger.Entry, bool, error) {
	if r := v.row(seq); r != nil {
		return r.Entry, !r.gone, nil
	}
	t, err := v.tree()
	if err != nil {
		return ledger.Entry{}, false, err
	}
	return t.entry(seqKey(seq))
}

// jobs are those of some sequences; one without id means that there is none.
func (v *view) jobs(seqs []int64) ([]protocol.Job, error) {
	held, elsewhere := make([][]byte, len(seqs)), make([]bool, len(seqs))
	for i, seq := range seqs {
		held[i], elsewhere[i] = v.job(seq)
	}
	t, err := v.tree()
	if err != nil {
		return nil, err
	}
	jobs := make([]protocol.Job, len(seqs))
	for i, seq := range seqs {
		switch {
		case elsewhere[i]:
			jobs[i], err = t.job(seq)
		case held[i] != nil:
			jobs[i], err = decodeJob(held[i])
		}
		if err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// job is what the layers hold of a job: its bytes, or nothing if it is over, or is elsewhere: in the tree if anywhere.
func (v *view) job(seq int64) (job []byte, elsewhere bool) {
	for _, l := range v.layers {
		if r := l.rows[seq]; r != nil && (r.job != nil || r.over()) {
			return r.job, false
		}
	}
	return nil, true
}

// changed are copies of the rows of all layers, the newest of each sequence, ascending.
func (v *view) changed() []row { return v.pick(func(*row) bool { return true }) }

// changedFor are those of them that say something about one bucket: a row that came with a layer is in no other bucket of the tree.
func (v *view) changedFor(b bucket) []row {
	return v.pick(func(r *row) bool { return !r.fresh || bucketOf(r.Status) == b })
}

func (v *view) pick(matters func(*row) bool) []row {
	var newest []*row
	for _, l := range v.layers {
		for seq, r := range l.rows {
			if matters(r) && v.row(seq) == r {
				newest = append(newest, r)
			}
		}
	}
	slices.SortFunc(newest, func(a, b *row) int { return cmp.Compare(a.StoreSeq, b.StoreSeq) })
	copies := make([]row, len(newest))
	for i, r := range newest {
		copies[i] = *r
	}
	return copies
}

func bySeq(r row, seq int64) int { return cmp.Compare(r.StoreSeq, seq) }

// scan visits the entries of one bucket above a sequence, ascending, until told to stop: those of the tree, but for what the changed
// rows say otherwise. From the start it also meets keys that no sequence can have.
func (v *view) scan(b bucket, changed []row, after int64, visit func(ledger.Entry) (more bool, err error)) error {
	if after == math.MaxInt64 {
		return nil
	}
	t, err := v.tree()
	if err != nil {
		return err
	}
	next, _ := slices.BinarySearchFunc(changed, after+1, bySeq)
	changed = changed[next:]
	cursor := t.bucket(b).Cursor()
	key, record := cursor.First()
	if after > 0 {
		key, record = cursor.Seek(seqKey(after + 1))
	}
	for key != nil || len(changed) > 0 {
		var e ledger.Entry
		if len(changed) > 0 && (key == nil || changed[0].StoreSeq <= keySeq(key)) {
			r := &changed[0]
			changed = changed[1:]
			if key != nil && keySeq(key) == r.StoreSeq {
				key, record = cursor.Next()
			}
			if r.gone || bucketOf(r.Status) != b {
				continue
			}
			e = r.Entry
		} else {
			if e, err = t.decode(b, key, record); err != nil {
				return err
			}
			key, record = cursor.Next()
		}
		if more, err := visit(e); !more || err != nil {
			return err
		}
	}
	return nil
}
