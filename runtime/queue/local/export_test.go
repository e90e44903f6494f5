package local

import (
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// FileName is the file in the directory.
const FileName = fileName

// Hang makes commits of the queue hang until release is called.
func Hang(q *Queue) (release func()) {
	gate := make(chan struct{})
	q.writing <- struct{}{}
	q.gate = func() { <-gate }
	<-q.writing
	return sync.OnceFunc(func() { close(gate) })
}

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
	return rows.Put(seqKey(e.StoreSeq), encodeEntry(e))
}

// SpoilRecord rewrites the raw row or job of a sequence; nil deletes it.
func SpoilRecord(tx *bolt.Tx, bucket string, seq int64, spoil func([]byte) []byte) error {
	b := tx.Bucket([]byte(bucket))
	record := spoil(append([]byte(nil), b.Get(seqKey(seq))...))
	if record == nil {
		return b.Delete(seqKey(seq))
	}
	return b.Put(seqKey(seq), record)
}

// Check verifies every index against every other, for tests: it returns the first contradiction.
func Check(tx *bolt.Tx) error {
	t, err := openTable(tx)
	if err != nil {
		return err
	}
	return t.check()
}

// Epoch is the newest epoch in the file.
func Epoch(tx *bolt.Tx) (queue.Epoch, error) {
	t, err := openTable(tx)
	if err != nil {
		return 0, err
	}
	return t.state.epoch, nil
}
