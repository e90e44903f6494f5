package local

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// layer is what a generation of the journal changes: it lies over the tree until it is written there.
type layer struct {
	rows    map[int64]*row
	ids     map[string]*row // the newest of each id, which may be gone
	free    []row           // where the next rows go
	state   state           // after all changes
	secret  *queue.Secret   // nil: as below
	workers []protocol.Incarnation
	audit   []queue.AuditLine
	groups  int       // whose changes these are
	cost    int64     // bounds the space that the changes need in the tree
	oldest  time.Time // no window in here started earlier; zero without any
	swept   []byte    // no window of the tree up to this key is to be found any more
}

// row is an entry after a change, as a whole.
type row struct {
	ledger.Entry
	job   []byte // the encoded job, if it came in this layer and is not over
	gone  bool   // the entry and its id are forgotten
	fresh bool   // the tree knows nothing of the entry
}

func newLayer(s state) *layer {
	return &layer{rows: map[int64]*row{}, ids: map[string]*row{}, state: s}
}

// put adds a row, over one that may be there.
func (l *layer) put(r row) {
	at := l.rows[r.StoreSeq]
	if at != nil {
		r.fresh = at.fresh
		if r.job == nil && !r.over() {
			r.job = at.job
		}
	} else {
		at = l.place()
		l.rows[r.StoreSeq] = at
		if known := l.ids[r.MessageID]; known == nil || known.StoreSeq < r.StoreSeq { // else the id was stored anew
			l.ids[r.MessageID] = at
		}
	}
	*at = r
	if r.Aging() && !r.gone && (l.oldest.IsZero() || r.Since.Before(l.oldest)) {
		l.oldest = r.Since
	}
}

// over tells whether the job needs its bytes no more.
func (r *row) over() bool { return r.gone || r.Settled() }

// rowsAtATime are made together.
const rowsAtATime = 64

func (l *layer) place() *row {
	if len(l.free) == 0 {
		l.free = make([]row, rowsAtATime)
	}
	at := &l.free[0]
	l.free = l.free[1:]
	return at
}

// sorted are the rows in ascending sequence.
func (l *layer) sorted() []*row {
	rows := make([]*row, 0, len(l.rows))
	for _, r := range l.rows {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Compare(a.StoreSeq, b.StoreSeq) })
	return rows
}

// changes are what a group does to a layer.
type changes struct {
	rows    []row
	state   state
	secret  *queue.Secret
	workers []protocol.Incarnation
	audit   []queue.AuditLine
	cost    int64
	swept   []byte
}

// add puts the changes into the layer.
func (l *layer) add(c *changes) {
	for i := range c.rows {
		l.put(c.rows[i])
	}
	l.groups++
	l.state, l.cost = c.state, l.cost+c.cost
	l.audit = append(l.audit, c.audit...)
	if c.secret != nil {
		l.secret = c.secret
	}
	if c.workers != nil {
		l.workers = c.workers
	}
	if c.swept != nil {
		l.swept = c.swept
	}
}

// What a record says about an entry.
const (
	rowGone byte = 1 << iota
	rowJob
)

// appendChanges encodes the changes of a group as format 2 has them in the journal: fields as in the records of the tree, and a count
// before each list.
func appendChanges(b []byte, c *changes) []byte {
	b = appendState(b, c.state)
	b = binary.AppendUvarint(b, uint64(c.cost))
	b = binary.AppendUvarint(b, uint64(len(c.rows)))
	for i := range c.rows {
		b = appendRow(b, &c.rows[i])
	}
	b = binary.AppendUvarint(b, uint64(len(c.audit)))
	for _, line := range c.audit {
		b = appendAudit(binary.AppendUvarint(b, line.Number), line)
	}
	if c.secret == nil {
		b = appendText(b, "")
	} else {
		b = appendText(b, string(c.secret[:]))
	}
	if c.workers == nil {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(c.workers)+1))
	for _, w := range c.workers {
		b = append(b, workerKey(w)...)
	}
	return b
}

func appendRow(b []byte, r *row) []byte {
	flags := byte(0)
	if r.gone {
		flags |= rowGone
	}
	if r.job != nil {
		flags |= rowJob
	}
	b = appendEntry(binary.AppendUvarint(append(b, flags), uint64(r.StoreSeq)), r.Entry)
	if r.job != nil {
		b = append(binary.AppendUvarint(b, uint64(len(r.job))), r.job...)
	}
	return b
}

// decodeChanges is the reverse. The tree may know more of the rows than when they were written.
func decodeChanges(fields []byte) (*changes, error) {
	r := reader{rest: fields}
	c := &changes{state: r.state(), cost: int64(r.count())}
	for n := r.count(); n > 0 && !r.failed; n-- {
		c.rows = append(c.rows, r.row())
	}
	for n := r.count(); n > 0 && !r.failed; n-- {
		number := uint64(r.count())
		line := r.audit()
		line.Number = number
		c.audit = append(c.audit, line)
	}
	if secret := r.bytes(r.count()); len(secret) == len(queue.Secret{}) {
		c.secret = (*queue.Secret)(slices.Clone(secret))
	} else if len(secret) > 0 {
		r.failed = true
	}
	if n := r.count(); n > 0 {
		c.workers = []protocol.Incarnation{}
		for ; n > 1 && !r.failed; n-- {
			c.workers = append(c.workers, protocol.Incarnation{PodUID: r.text(), BootNonce: r.text()})
		}
	}
	if r.failed || len(r.rest) > 0 || !c.state.valid() {
		return nil, fmt.Errorf("%w: changes of a group", errRecord)
	}
	return c, nil
}

func (r *reader) row() row {
	flags := r.byte()
	seq := int64(r.count())
	w := row{Entry: r.entry(), gone: flags&rowGone != 0}
	w.StoreSeq = seq
	if flags&rowJob != 0 {
		w.job = slices.Clone(r.bytes(r.count()))
	}
	if flags&^(rowGone|rowJob) != 0 || seq < 1 || w.MessageID == "" {
		r.failed = true
	}
	return w
}
