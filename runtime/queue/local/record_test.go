package local

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

var when = time.Date(2026, 11, 30, 1, 2, 3, 4, time.UTC)

func entries() []ledger.Entry {
	ref := queue.JobRef{MessageID: "ünïcode", StoreSeq: protocol.MaxSequence}
	return []ledger.Entry{
		{JobRef: queue.JobRef{MessageID: "a", StoreSeq: 1}, Status: ledger.Stored, PayloadBytes: 1, StoredAt: when},
		{JobRef: ref, Digest: queue.Digest{1, 2, 31: 3}, Status: ledger.DeadLettered, Accepted: true, Attempts: math.MaxInt,
			Uncounted: 7, PayloadBytes: protocol.MaxPayloadBytes, Reason: "why", StoredAt: when, Since: when.Add(1)},
		{JobRef: ref, Status: ledger.Confirmed, StoredAt: when},
		{JobRef: ref, Status: ledger.Dropped, Accepted: true, StoredAt: when, Since: time.Unix(0, -5).UTC()},
	}
}

func jobs() []protocol.Job {
	return []protocol.Job{
		{MessageID: "a", Payload: []byte{0}},
		{MessageID: "b", Headers: map[string]string{"": "", "k": "v", "ключ": "значение"}, Payload: bytes.Repeat([]byte("x"), 1000)},
		{MessageID: "c", Payload: bytes.Repeat([]byte("y"), partBytes-2)}, // with its id exactly one part
		{MessageID: "d", Payload: bytes.Repeat([]byte("z"), partBytes-1)},
		{MessageID: "e", Payload: bytes.Repeat([]byte("0123456789"), partBytes)},
	}
}

// roundTrip encodes a job into its records and back.
func roundTrip(seq int64, job protocol.Job) (protocol.Job, error) {
	records := map[string][]byte{}
	for part, record := range encodeParts(seq, encodeJob(job)) {
		records[string(partKey(seq, part))] = record
	}
	fields, err := decodeParts(seq, func(key []byte) []byte { return records[string(key)] })
	if err != nil {
		return protocol.Job{}, err
	}
	return decodeJob(fields)
}

func TestRecordsComeBack(t *testing.T) {
	for _, want := range entries() {
		got, err := decodeEntry(seqKey(want.StoreSeq), encodeEntry(want))
		if err != nil || got != want {
			t.Errorf("got %+v, error %v, want %+v", got, err, want)
		}
	}
	for i, want := range jobs() {
		got, err := roundTrip(int64(i+1), want)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("error %v, (-want +got)\n%s", err, diff)
		}
	}
	line := queue.AuditLine{Number: 7, At: when, Action: queue.AuditDrop, JobRef: queue.JobRef{MessageID: "a", StoreSeq: 3}, Text: "ann"}
	if got, err := decodeAudit(seqKey(7), encodeAudit(seqKey(7), line)); err != nil || got != line {
		t.Errorf("got %+v, error %v, want %+v", got, err, line)
	}
	s := state{epoch: 9, cursor: 10, stored: 3, dead: 2, owner: "someone"}
	if got, err := decodeState(keyState, encodeState(keyState, s)); err != nil || got != s {
		t.Errorf("got %+v, error %v, want %+v", got, err, s)
	}
}

// No single damage of a record goes unnoticed: a flipped bit, a missing end, another key.
func TestRecordsNoticeDamage(t *testing.T) {
	record := encodeEntry(entries()[1])
	key := seqKey(entries()[1].StoreSeq)
	for i := range len(record) * 8 {
		spoiled := bytes.Clone(record)
		spoiled[i/8] ^= 1 << (i % 8)
		if _, err := decodeEntry(key, spoiled); err == nil {
			t.Errorf("bit %d flipped and nobody noticed", i)
		}
	}
	for n := range record {
		if _, err := decodeEntry(key, record[:n]); err == nil {
			t.Errorf("cut to %d of %d bytes and nobody noticed", n, len(record))
		}
	}
	if _, err := decodeEntry(seqKey(1), record); err == nil {
		t.Error("under another key and nobody noticed")
	}
}

// FuzzDecode feeds any bytes, with a right checksum so that they get past it, to every decoder: none may panic, and what a
// decoder accepts must survive another round.
func FuzzDecode(f *testing.F) {
	for _, e := range entries() {
		record := encodeEntry(e)
		f.Add(e.StoreSeq, record[:len(record)-4])
	}
	for i, job := range jobs() {
		f.Add(int64(i+1), encodeJob(job))
	}
	s := encodeState(nil, state{epoch: 1, cursor: 2, stored: 1, dead: 1, owner: "o"})
	f.Add(int64(1), s[:len(s)-4])
	a := encodeAudit(nil, queue.AuditLine{Number: 1, At: when, Action: "drop", Text: "ann"})
	f.Add(int64(1), a[:len(a)-4])
	f.Add(int64(1), workerKey(protocol.Incarnation{PodUID: "uid", BootNonce: "boot"}))
	f.Add(int64(-1), []byte{})
	f.Add(int64(1), bytes.Repeat([]byte{0xff}, 64))
	f.Fuzz(func(t *testing.T, seq int64, fields []byte) {
		key := seqKey(seq)
		record := seal(key, bytes.Clone(fields))
		if e, err := decodeEntry(key, record); err == nil {
			if again, err := decodeEntry(key, encodeEntry(e)); err != nil || again != e {
				t.Errorf("entry %+v became %+v, error %v", e, again, err)
			}
		}
		_, _ = decodeParts(seq, func(key []byte) []byte { return seal(key, bytes.Clone(fields)) })
		if job, err := decodeJob(fields); err == nil {
			again, err := roundTrip(seq, job)
			if diff := cmp.Diff(job, again); err != nil || diff != "" {
				t.Errorf("error %v, (-first +again)\n%s", err, diff)
			}
		}
		if s, err := decodeState(key, record); err == nil {
			if again, err := decodeState(key, encodeState(key, s)); err != nil || again != s {
				t.Errorf("state %+v became %+v, error %v", s, again, err)
			}
		}
		if worker, err := decodeWorker(fields, seal(fields, nil)); err == nil {
			if again, err := decodeWorker(workerKey(worker), seal(workerKey(worker), nil)); err != nil || again != worker {
				t.Errorf("worker %+v became %+v, error %v", worker, again, err)
			}
		}
		if line, err := decodeAudit(key, record); err == nil {
			if again, err := decodeAudit(key, encodeAudit(key, line)); err != nil || again != line {
				t.Errorf("line %+v became %+v, error %v", line, again, err)
			}
		}
	})
}

// Windows sort by their start, whatever a wrong clock made of it.
func TestAgingKeysSortByTime(t *testing.T) {
	var last []byte
	for _, nanos := range []int64{math.MinInt64 + 1, -2, -1, 0, 1, math.MaxInt64} {
		key := agingKey(ledger.Entry{JobRef: queue.JobRef{StoreSeq: 1}, Since: time.Unix(0, nanos)})
		if bytes.Compare(last, key) >= 0 {
			t.Errorf("the key of %d ns does not sort behind the one before", nanos)
		}
		last = key
	}
}

func workersOf(pods ...string) (workers []protocol.Incarnation) {
	for _, pod := range pods {
		workers = append(workers, protocol.Incarnation{PodUID: pod, BootNonce: "boot"})
	}
	return workers
}
