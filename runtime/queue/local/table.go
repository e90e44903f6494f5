package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// The buckets of the tree. Entries live in one of three by status, so that a Load reads no tombstones and a report of dead
// letters no rows. All keys but those of ids sort by sequence or time, so that writes go to the end.
var (
	bucketMeta  = []byte("meta")  // format, flow, state, journal, secret
	bucketIDs   = []byte("ids")   // message id → sequence
	bucketRows  = []byte("rows")  // sequence → entry, stored
	bucketDead  = []byte("dead")  // sequence → entry, dead-lettered
	bucketTombs = []byte("tombs") // sequence → entry, confirmed or dropped
	bucketJobs  = []byte("jobs")  // sequence, part → headers and payload, of stored and dead-lettered entries
	bucketAging = []byte("aging") // start of the window, sequence → nothing
	bucketAudit = []byte("audit") // number → audit line

	buckets = [][]byte{bucketMeta, bucketIDs, bucketRows, bucketDead, bucketTombs, bucketJobs, bucketAging, bucketAudit}

	// bucketWorkers came later: incarnation → nothing but its checksum. Files without it are read, and builds that do not know
	// it leave it alone. The same goes for keySecret.
	bucketWorkers = []byte("workers")

	keyFormat  = []byte("format")
	keyFlow    = []byte("flow")
	keyState   = []byte("state")
	keyJournal = []byte("journal")
	keySecret  = []byte("secret")
)

// bucket is one of those that hold entries.
type bucket int

const (
	rows bucket = iota
	tombs
	dead
)

func bucketOf(status ledger.Status) bucket {
	switch status {
	case ledger.Stored:
		return rows
	case ledger.DeadLettered:
		return dead
	default:
		return tombs
	}
}

// appendFill is how full pages get in buckets whose keys rise; the engine's default of one half suits random keys.
const appendFill = 0.9

// initialise makes the buckets of an empty queue.
func initialise(tx *bolt.Tx, flow string, shape journalShape) error {
	for _, name := range append([][]byte{bucketWorkers}, buckets...) {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	meta := tx.Bucket(bucketMeta)
	return errors.Join(
		meta.Put(keyFormat, binary.BigEndian.AppendUint64(nil, Format)),
		meta.Put(keyFlow, []byte(flow)),
		meta.Put(keyState, encodeState(keyState, state{})),
		meta.Put(keyJournal, encodeJournal(keyJournal, shape, journalMark{})))
}

// upgrade makes a tree of format 1, which had no journal, one of this format.
func upgrade(tx *bolt.Tx, shape journalShape) error {
	if _, err := tx.CreateBucketIfNotExists(bucketWorkers); err != nil {
		return err
	}
	meta := tx.Bucket(bucketMeta)
	return errors.Join(
		meta.Put(keyFormat, binary.BigEndian.AppendUint64(nil, Format)),
		meta.Put(keyJournal, encodeJournal(keyJournal, shape, journalMark{})))
}

// identify refuses a file that this build or this flow may not touch, and returns its format.
func identify(tx *bolt.Tx, flow string) (uint64, error) {
	meta := tx.Bucket(bucketMeta)
	if meta == nil || len(meta.Get(keyFormat)) != 8 {
		return 0, fmt.Errorf("%w: the file is no queue", queue.ErrConflict)
	}
	format := binary.BigEndian.Uint64(meta.Get(keyFormat))
	if format < oldestFormat || format > Format {
		return 0, fmt.Errorf("%w: the data have format %d, this build reads %d to %d; use the newer build again or drain the queue with it",
			queue.ErrUnsupportedFormat, format, oldestFormat, Format)
	}
	if owner := meta.Get(keyFlow); string(owner) != flow {
		return 0, fmt.Errorf("%w: it holds the jobs of %q, not of %q", ErrOtherFlow, owner, flow)
	}
	t, err := openTable(tx)
	if err == nil && format == Format {
		_, _, err = t.journal()
	}
	return format, err
}

// table is the tree within one transaction.
type table struct {
	meta, ids, rows, dead, tombs, jobs, aging, audit *bolt.Bucket
	workers                                          *bolt.Bucket // nil to a reader of a file that has none yet

	state   state
	failure error // the first write that the engine refused; the whole transaction is void then
}

func openTable(tx *bolt.Tx) (*table, error) {
	t := &table{}
	for i, b := range [...]**bolt.Bucket{&t.meta, &t.ids, &t.rows, &t.dead, &t.tombs, &t.jobs, &t.aging, &t.audit} {
		if *b = tx.Bucket(buckets[i]); *b == nil {
			return nil, fmt.Errorf("%w: bucket %s is missing", queue.ErrConflict, buckets[i])
		}
		if *b != t.ids {
			(*b).FillPercent = appendFill
		}
	}
	t.workers = tx.Bucket(bucketWorkers)
	var err error
	if t.state, err = decodeState(keyState, t.meta.Get(keyState)); err != nil {
		return nil, fmt.Errorf("%w: state: %w", queue.ErrConflict, err)
	}
	return t, nil
}

// journal is which journal belongs to the tree, and up to where the tree holds its changes.
func (t *table) journal() (journalShape, journalMark, error) {
	shape, mark, err := decodeJournal(keyJournal, t.meta.Get(keyJournal))
	if err != nil {
		err = fmt.Errorf("%w: journal: %w", queue.ErrConflict, err)
	}
	return shape, mark, err
}

// ByID implements ledger.View.
func (t *table) ByID(id string) (ledger.Entry, bool, error) {
	key := t.ids.Get([]byte(id))
	if key == nil {
		return ledger.Entry{}, false, nil
	}
	e, ok, err := t.entry(key)
	if err == nil && (!ok || e.MessageID != id) {
		err = fmt.Errorf("%w: the index of message %q names no row of it", queue.ErrConflict, id)
	}
	return e, ok, err
}

func (t *table) entry(key []byte) (ledger.Entry, bool, error) {
	for _, b := range [...]bucket{rows, tombs, dead} {
		if record := t.bucket(b).Get(key); record != nil {
			e, err := t.decode(b, key, record)
			return e, err == nil, err
		}
	}
	return ledger.Entry{}, false, nil
}

// decode reads an entry and checks that it may be in that bucket of this table.
func (t *table) decode(b bucket, key, record []byte) (ledger.Entry, error) {
	e, err := decodeEntry(key, record)
	if err != nil {
		return e, fmt.Errorf("%w: entry under %x: %w", queue.ErrConflict, key, err)
	}
	if bucketOf(e.Status) != b || e.StoreSeq > t.state.cursor {
		return e, fmt.Errorf("%w: sequence %d, %s, is out of place; the cursor is %d", queue.ErrConflict, e.StoreSeq, e.Status, t.state.cursor)
	}
	return e, nil
}

func (t *table) bucket(b bucket) *bolt.Bucket {
	switch b {
	case rows:
		return t.rows
	case dead:
		return t.dead
	default:
		return t.tombs
	}
}

// job reads the bytes of a sequence; a job without id means that there are none.
func (t *table) job(seq int64) (protocol.Job, error) {
	fields, err := decodeParts(seq, t.jobs.Get)
	if err == nil && fields == nil {
		if key := seqKey(seq); t.rows.Get(key) == nil && t.dead.Get(key) == nil {
			return protocol.Job{}, nil
		}
		err = errors.New("the bytes are gone")
	}
	var job protocol.Job
	if err == nil {
		job, err = decodeJob(fields)
	}
	if err != nil {
		return protocol.Job{}, fmt.Errorf("%w: job of sequence %d: %w", queue.ErrConflict, seq, err)
	}
	return job, nil
}

// write brings the tree to what the rows say, whatever it knew of them before. The ids go in their order: so each page of their index is
// met once, and its keys are added one behind the other.
func (t *table) write(changed []*row, cursor int64) error {
	t.state.cursor = max(t.state.cursor, cursor) // the counters follow with the rest of the layer
	t.put(t.meta, keyState, encodeState(keyState, t.state))
	var added []*row
	for _, r := range changed {
		known, err := t.writeEntry(r)
		if err != nil {
			return err
		}
		if !known && !r.gone {
			added = append(added, r)
		}
	}
	slices.SortFunc(added, func(a, b *row) int { return strings.Compare(a.MessageID, b.MessageID) })
	for _, r := range added {
		t.put(t.ids, []byte(r.MessageID), seqKey(r.StoreSeq))
	}
	return t.failure
}

// writeEntry writes one row but for its id, unless that is forgotten. It returns whether the tree knew the entry.
func (t *table) writeEntry(r *row) (known bool, err error) {
	key := seqKey(r.StoreSeq)
	var before ledger.Entry
	if !r.fresh {
		if before, known, err = t.entry(key); err != nil {
			return known, err
		}
	}
	if known && (r.gone || bucketOf(before.Status) != bucketOf(r.Status)) {
		t.delete(t.bucket(bucketOf(before.Status)), key)
	}
	if !r.gone {
		t.put(t.bucket(bucketOf(r.Status)), key, encodeEntry(r.Entry))
	}
	switch over := r.over(); {
	case !known && !over:
		for part, record := range encodeParts(r.StoreSeq, r.job) {
			t.put(t.jobs, partKey(r.StoreSeq, part), record)
		}
	case known && over && !before.Settled():
		t.deleteJob(r.StoreSeq)
	}
	aged, ages := known && before.Aging(), r.Aging() && !r.gone
	if aged && !ages {
		t.delete(t.aging, agingKey(before))
	} else if ages && !aged {
		t.put(t.aging, agingKey(r.Entry), nil)
	}
	if known && r.gone && bytes.Equal(t.ids.Get([]byte(r.MessageID)), key) { // else the id was stored anew
		t.delete(t.ids, []byte(r.MessageID))
	}
	return known, nil
}

func (t *table) deleteJob(seq int64) {
	for part := 0; ; part++ {
		key := partKey(seq, part)
		if t.jobs.Get(key) == nil {
			return
		}
		t.delete(t.jobs, key)
	}
}

// writeRest writes what else a layer holds.
func (t *table) writeRest(l *layer) error {
	for _, line := range l.audit {
		key := binary.BigEndian.AppendUint64(nil, line.Number)
		t.put(t.audit, key, encodeAudit(key, line))
		if line.Number > queue.MaxAuditLines {
			t.delete(t.audit, binary.BigEndian.AppendUint64(nil, line.Number-queue.MaxAuditLines))
		}
	}
	if l.secret != nil {
		t.put(t.meta, keySecret, seal(keySecret, bytes.Clone(l.secret[:])))
	}
	if l.workers != nil {
		t.putWorkers(l.workers)
	}
	t.put(t.meta, keyState, encodeState(keyState, l.state))
	return t.failure
}

// finish writes the end of a layer, with which the tree is at a mark of the journal.
func (t *table) finish(l *layer, shape journalShape, mark journalMark) error {
	t.put(t.meta, keyJournal, encodeJournal(keyJournal, shape, mark))
	return t.writeRest(l)
}

// agingKey sorts by the start of the window; flipping the sign bit makes times before 1970 sort first.
func agingKey(e ledger.Entry) []byte {
	key := binary.BigEndian.AppendUint64(nil, uint64(e.Since.UnixNano())^(1<<63))
	return append(key, seqKey(e.StoreSeq)...)
}

func (t *table) put(b *bolt.Bucket, key, value []byte) { t.wrote(b.Put(key, value)) }
func (t *table) delete(b *bolt.Bucket, key []byte)     { t.wrote(b.Delete(key)) }

func (t *table) wrote(err error) {
	if err != nil && t.failure == nil {
		t.failure = fmt.Errorf("writing: %w", err)
	}
}
