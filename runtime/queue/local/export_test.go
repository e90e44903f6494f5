package local

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// FileName is the file in the directory.
const FileName = fileName

// Hang makes commits of the queue hang until release is called.
func Hang(q *Queue) (release func()) {
	gate := make(chan struct{})
	SetGate(q, func() error { <-gate; return nil })
	return sync.OnceFunc(func() { close(gate) })
}

// SetGate runs gate before each commit; its error is that of the commit.
func SetGate(q *Queue, gate func() error) {
	_ = q.lane.Hold(context.Background())
	q.gate = gate
	q.lane.Release()
}

// SetTreeGate runs gate before each commit of the tree, of which none may be under way; its error is that of the commit.
func SetTreeGate(q *Queue, gate func() error) {
	_ = q.lane.Hold(context.Background())
	q.treeGate = gate
	q.lane.Release()
}

// SetTreeSync runs sync after each commit of the tree, of which none may be under way; its error is that of the commit, which shows
// nevertheless.
func SetTreeSync(q *Queue, sync func() error) {
	_ = q.lane.Hold(context.Background())
	q.treeSync = sync
	q.lane.Release()
}

// Waiting is how many operations wait for a commit that has not started.
func Waiting(q *Queue) int { return q.lane.Waiting() }

// SetFormat pretends that another build wrote the file.
func SetFormat(tx *bolt.Tx, format uint64) error {
	return tx.Bucket(bucketMeta).Put(keyFormat, seqKey(int64(format)))
}

// SpoilEntry rewrites the row of a sequence.
func SpoilEntry(tx *bolt.Tx, seq int64, spoil func(*ledger.Entry)) error {
	rows := tx.Bucket(bucketRows)
	e, err := decodeEntry(seqKey(seq), rows.Get(seqKey(seq)))
	if err != nil {
		return err
	}
	spoil(&e)
	if e.StoreSeq > seq { // moved whole, index and all
		if err := errors.Join(rows.Delete(seqKey(seq)), tx.Bucket(bucketIDs).Put([]byte(e.MessageID), seqKey(e.StoreSeq))); err != nil {
			return err
		}
	}
	return rows.Put(seqKey(e.StoreSeq), encodeEntry(e))
}

// SpoilRow rewrites the raw row of a sequence; nil deletes it.
func SpoilRow(tx *bolt.Tx, seq int64, spoil func([]byte) []byte) error {
	return spoilRecord(tx.Bucket(bucketRows), seqKey(seq), spoil)
}

// SpoilPart rewrites a raw part of a job; nil deletes it.
func SpoilPart(tx *bolt.Tx, seq int64, part int, spoil func([]byte) []byte) error {
	return spoilRecord(tx.Bucket(bucketJobs), partKey(seq, part), spoil)
}

// SpoilSecret rewrites the raw secret.
func SpoilSecret(tx *bolt.Tx, spoil func([]byte) []byte) error {
	return spoilRecord(tx.Bucket(bucketMeta), keySecret, spoil)
}

// AddBrokenWorker records a worker under a wrong checksum.
func AddBrokenWorker(tx *bolt.Tx) error {
	key := workerKey(protocol.Incarnation{PodUID: "pod", BootNonce: "boot"})
	return tx.Bucket(bucketWorkers).Put(key, seal(keySecret, nil))
}

// MakeOld makes the file one of the first build, which knew neither journal nor secret nor workers.
func MakeOld(tx *bolt.Tx) error {
	meta := tx.Bucket(bucketMeta)
	return errors.Join(SetFormat(tx, oldestFormat), meta.Delete(keyJournal), meta.Delete(keySecret), tx.DeleteBucket(bucketWorkers))
}

// JournalName is the journal in the directory.
const JournalName = journalName

// SmallJournal makes the journal of a new queue an eighth of the usual one, which each opening reads whole.
func SmallJournal(options Options) Options {
	options.half = largestHalf / 8
	return options
}

// Hasty makes the journal of a new queue small and its layers of so many rows, so that they are written to the tree all the time.
func Hasty(options Options, rows int) Options {
	options.half, options.mostRows = smallestHalf, rows
	return options
}

// Drain waits until the tree holds all.
func Drain(q *Queue) error {
	_ = q.lane.Hold(context.Background())
	defer q.lane.Release()
	return q.drain()
}

func spoilRecord(b *bolt.Bucket, key []byte, spoil func([]byte) []byte) error {
	record := spoil(bytes.Clone(b.Get(key)))
	if record == nil {
		return b.Delete(key)
	}
	return b.Put(key, record)
}

// Check verifies every index against every other, for tests: it returns the first contradiction.
func Check(tx *bolt.Tx) error {
	t, err := openTable(tx)
	if err != nil {
		return err
	}
	return t.check()
}

// FillAudit writes audit lines in one commit.
func FillAudit(t testing.TB, q *Queue, lines int) {
	t.Helper()
	if err := q.update(func(d *draft) {
		for range lines {
			if err := d.note(queue.AuditLine{Action: queue.AuditDrop, Text: "filler"}); err != nil {
				t.Error(err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
}
