package memory

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// yard keeps the tombstones whose windows run, in the order in which these started. It is most of what a long-lived queue holds: a
// tombstone is a few dozen bytes within a block of many, and a block one thing without pointers to a garbage collection.
type yard struct {
	blocks frames[block]
	oldest uint32 // the block of the oldest tombstone, 0 if there is none
	newest uint32
	gone   int    // how many of the oldest block are gone
	filled int    // how many the newest block has
	open   []byte // the memory in which each block is filled, before it is copied to as much as it needs
}

type block struct {
	bytes []byte
	ends  [perFrame]uint16 // where each tombstone ends in bytes
	next  uint32           // the block that came after
}

// tombstone is all that a settled and accepted job leaves behind.
type tombstone struct {
	job      place // in the pages
	digest   queue.Digest
	status   ledger.Status
	since    int64 // Unix time in nanoseconds
	attempts int
	id       []byte
}

// A tombstone in bytes: digest, since, job, status, attempts in as many bytes as they need, and the id up to its end. The longest possible
// of a whole block stay below 64 KiB.
const (
	sinceAt    = len(queue.Digest{})
	jobAt      = sinceAt + 8
	statusAt   = jobAt + 4
	attemptsAt = statusAt + 1
)

// bury adds a tombstone for the entry, whose job has the place.
func (y *yard) bury(e *ledger.Entry, job place) place {
	if y.newest == 0 || y.filled == perFrame {
		y.begin()
	}
	b := y.blocks.at(y.newest)
	b.bytes = append(b.bytes, e.Digest[:]...)
	b.bytes = binary.LittleEndian.AppendUint64(b.bytes, uint64(e.Since.UnixNano()))
	b.bytes = binary.LittleEndian.AppendUint32(b.bytes, uint32(job))
	b.bytes = append(b.bytes, byte(e.Status))
	b.bytes = binary.AppendUvarint(b.bytes, uint64(e.Attempts))
	b.bytes = append(b.bytes, e.MessageID...)
	b.ends[y.filled] = uint16(len(b.bytes))
	at := placeOf(y.newest, y.filled)
	if y.filled++; y.filled == perFrame {
		y.open, b.bytes = b.bytes[:0], bytes.Clone(b.bytes)
	}
	return at
}

func (y *yard) begin() {
	number := y.blocks.add(&block{bytes: y.open})
	if y.newest == 0 {
		y.oldest = number
	} else {
		y.blocks.at(y.newest).next = number
	}
	y.newest, y.filled, y.open = number, 0, nil
}

// at reads a tombstone. Its id is valid until the next change.
func (y *yard) at(at place) tombstone {
	b, i, start := y.blocks.at(at.frame()), at.member(), 0
	if i > 0 {
		start = int(b.ends[i-1])
	}
	raw := b.bytes[start:b.ends[i]]
	attempts, n := binary.Uvarint(raw[attemptsAt:])
	return tombstone{
		digest:   queue.Digest(raw[:sinceAt]),
		since:    int64(binary.LittleEndian.Uint64(raw[sinceAt:])),
		job:      place(binary.LittleEndian.Uint32(raw[jobAt:])),
		status:   ledger.Status(raw[statusAt]),
		attempts: int(attempts),
		id:       raw[attemptsAt+n:],
	}
}

// first is the oldest tombstone; ok is false if there is none.
func (y *yard) first() (t tombstone, ok bool) {
	if y.oldest == 0 || y.oldest == y.newest && y.gone == y.filled {
		return tombstone{}, false
	}
	return y.at(placeOf(y.oldest, y.gone)), true
}

// removeFirst forgets the oldest tombstone.
func (y *yard) removeFirst() {
	if y.gone++; y.gone < perFrame {
		return
	}
	oldest := y.oldest
	y.oldest, y.gone = y.blocks.at(oldest).next, 0
	if y.oldest == 0 {
		y.newest = 0
	}
	y.blocks.drop(oldest)
}

// entry is the tombstone of a job with the sequence, as the ledger knows it.
func (t tombstone) entry(seq int64) ledger.Entry {
	return ledger.Entry{
		JobRef: queue.JobRef{MessageID: string(t.id), StoreSeq: seq}, Digest: t.digest, Status: t.status, Accepted: true,
		Attempts: t.attempts, Since: time.Unix(0, t.since).UTC(),
	}
}

func (t tombstone) expired(now time.Time, window time.Duration) bool {
	return ledger.Entry{Status: t.status, Accepted: true, Since: time.Unix(0, t.since)}.Expired(now, window)
}
