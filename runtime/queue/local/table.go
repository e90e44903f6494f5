package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// The buckets of format 1. Entries live in one of three by status, so that a Load reads no tombstones and a report of dead
// letters no rows. All keys but those of ids sort by sequence or time, so that writes go to the end.
var (
	bucketMeta  = []byte("meta")  // format, flow, state
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

	keyFormat = []byte("format")
	keyFlow   = []byte("flow")
	keyState  = []byte("state")
	keySecret = []byte("secret")
)

// appendFill is how full pages get in buckets whose keys rise; the engine's default of one half suits random keys.
const appendFill = 0.9

// initialise makes the buckets of an empty queue.
func initialise(tx *bolt.Tx, flow string) error {
	for _, name := range buckets {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	meta := tx.Bucket(bucketMeta)
	for _, pair := range [][2][]byte{
		{keyFormat, binary.BigEndian.AppendUint64(nil, Format)}, {keyFlow, []byte(flow)}, {keyState, encodeState(keyState, state{})},
	} {
		if err := meta.Put(pair[0], pair[1]); err != nil {
			return err
		}
	}
	return nil
}

// identify refuses a file that this build or this flow may not touch.
func identify(tx *bolt.Tx, flow string) error {
	meta := tx.Bucket(bucketMeta)
	if meta == nil || len(meta.Get(keyFormat)) != 8 {
		return fmt.Errorf("%w: the file is no queue", queue.ErrConflict)
	}
	if format := binary.BigEndian.Uint64(meta.Get(keyFormat)); format != Format {
		return fmt.Errorf("%w: the data have format %d, this build reads up to %d; use the newer build again or drain the queue with it",
			queue.ErrUnsupportedFormat, format, Format)
	}
	if owner := meta.Get(keyFlow); string(owner) != flow {
		return fmt.Errorf("%w: it holds the jobs of %q, not of %q", ErrOtherFlow, owner, flow)
	}
	_, err := openTable(tx)
	return err
}

// table is the file within one transaction.
type table struct {
	meta, ids, rows, dead, tombs, jobs, aging, audit *bolt.Bucket
	workers                                          *bolt.Bucket // nil to a reader of a file that has none yet

	space *space // nil to a reader
	room  int64  // bytes that the transaction may still write into space that the file has

	state   state
	changed bool
	failure error // the first write that the engine refused; the whole transaction is void then
}

func openTable(tx *bolt.Tx) (*table, error) {
	t := &table{}
	for i, b := range []**bolt.Bucket{&t.meta, &t.ids, &t.rows, &t.dead, &t.tombs, &t.jobs, &t.aging, &t.audit} {
		if *b = tx.Bucket(buckets[i]); *b == nil {
			return nil, fmt.Errorf("%w: bucket %s is missing", queue.ErrConflict, buckets[i])
		}
		if *b != t.ids {
			(*b).FillPercent = appendFill
		}
	}
	var err error
	if t.workers = tx.Bucket(bucketWorkers); t.workers == nil && tx.Writable() {
		if t.workers, err = tx.CreateBucket(bucketWorkers); err != nil {
			return nil, fmt.Errorf("adding a bucket: %w", err)
		}
	}
	if t.state, err = decodeState(keyState, t.meta.Get(keyState)); err != nil {
		return nil, fmt.Errorf("%w: state: %w", queue.ErrConflict, err)
	}
	return t, nil
}

// finish writes the state of a transaction that changed something.
func (t *table) finish() error {
	if t.changed {
		t.put(t.meta, keyState, encodeState(keyState, t.state))
	}
	return t.failure
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

// BySequence implements ledger.View.
func (t *table) BySequence(seq int64) (ledger.Entry, bool, error) { return t.entry(seqKey(seq)) }

func (t *table) entry(key []byte) (ledger.Entry, bool, error) {
	for _, b := range []*bolt.Bucket{t.rows, t.tombs, t.dead} {
		if record := b.Get(key); record != nil {
			e, err := t.decode(b, key, record)
			return e, err == nil, err
		}
	}
	return ledger.Entry{}, false, nil
}

// decode reads an entry and checks that it may be in that bucket of this table.
func (t *table) decode(b *bolt.Bucket, key, record []byte) (ledger.Entry, error) {
	e, err := decodeEntry(key, record)
	if err != nil {
		return e, fmt.Errorf("%w: entry under %x: %w", queue.ErrConflict, key, err)
	}
	if t.bucketOf(e.Status) != b || e.StoreSeq > t.state.cursor {
		return e, fmt.Errorf("%w: sequence %d, %s, is out of place; the cursor is %d", queue.ErrConflict, e.StoreSeq, e.Status, t.state.cursor)
	}
	return e, nil
}

func (t *table) bucketOf(status ledger.Status) *bolt.Bucket {
	switch status {
	case ledger.Stored:
		return t.rows
	case ledger.DeadLettered:
		return t.dead
	default:
		return t.tombs
	}
}

// apply writes one planned change; job is the encoded bytes of a new entry.
func (t *table) apply(c ledger.Change, job []byte) {
	before, after, key := c.Before, c.After, seqKey(c.After.StoreSeq)
	after.Reason = t.afford(after.Reason)
	if c.New() {
		t.put(t.ids, []byte(after.MessageID), key)
	} else {
		t.count(before.Status, -1)
		if from := t.bucketOf(before.Status); from != t.bucketOf(after.Status) {
			t.delete(from, key)
		}
	}
	t.count(after.Status, +1)
	t.put(t.bucketOf(after.Status), key, encodeEntry(after))
	switch {
	case c.New() && !after.Settled():
		for part, record := range encodeParts(after.StoreSeq, job) {
			t.put(t.jobs, partKey(after.StoreSeq, part), record)
		}
	case !c.New() && after.Settled() && !before.Settled():
		t.deleteJob(after.StoreSeq)
	}
	if after.Aging() && !before.Aging() {
		t.put(t.aging, agingKey(after), nil)
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

func (t *table) deleteJob(seq int64) {
	prefix := seqKey(seq)
	var keys [][]byte
	cursor := t.jobs.Cursor()
	for key, _ := cursor.Seek(prefix); bytes.HasPrefix(key, prefix); key, _ = cursor.Next() {
		keys = append(keys, bytes.Clone(key))
	}
	for _, key := range keys {
		t.delete(t.jobs, key)
	}
}

// forget removes the oldest tombstones whose window is over and returns how many.
func (t *table) forget(now time.Time, window time.Duration, limit int) (int, error) {
	removed := 0
	for removed < limit {
		key, _ := t.aging.Cursor().First()
		if key == nil {
			break
		}
		e, ok, err := t.entry(key[8:])
		if err != nil {
			return removed, err
		}
		if !ok || !e.Aging() || !bytes.Equal(agingKey(e), key) {
			return removed, fmt.Errorf("%w: the window under %x belongs to no tombstone", queue.ErrConflict, key)
		}
		if !e.Expired(now, window) {
			break
		}
		t.delete(t.aging, agingKey(e))
		t.delete(t.tombs, seqKey(e.StoreSeq))
		t.delete(t.ids, []byte(e.MessageID))
		removed++
	}
	return removed, nil
}

// agingKey sorts by the start of the window; flipping the sign bit makes times before 1970 sort first.
func agingKey(e ledger.Entry) []byte {
	key := binary.BigEndian.AppendUint64(nil, uint64(e.Since.UnixNano())^(1<<63))
	return append(key, seqKey(e.StoreSeq)...)
}

// note adds an audit line and drops the oldest beyond the bound.
func (t *table) note(line queue.AuditLine) {
	if last, _ := t.audit.Cursor().Last(); last != nil {
		line.Number = binary.BigEndian.Uint64(last)
	}
	line.Number++
	line.Text = t.afford(line.Text)
	key := binary.BigEndian.AppendUint64(nil, line.Number)
	t.put(t.audit, key, encodeAudit(key, line))
	if line.Number > queue.MaxAuditLines {
		t.delete(t.audit, binary.BigEndian.AppendUint64(nil, line.Number-queue.MaxAuditLines))
	}
}

func (t *table) count(status ledger.Status, by int64) {
	switch status {
	case ledger.Stored:
		t.state.stored += by
	case ledger.DeadLettered:
		t.state.dead += by
	default: // tombstones are not counted
	}
}

func (t *table) put(b *bolt.Bucket, key, value []byte) { t.wrote(b.Put(key, value)) }
func (t *table) delete(b *bolt.Bucket, key []byte)     { t.wrote(b.Delete(key)) }

func (t *table) wrote(err error) {
	t.changed = true
	if err != nil && t.failure == nil {
		t.failure = fmt.Errorf("writing: %w", err)
	}
}
