package local

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// Records of the tree. Each is a sequence of fields followed by a CRC-32C that covers the record's key and its fields, so a
// record that is damaged or under a wrong key does not decode. Numbers are big endian or, where small, uvarints; texts and byte
// strings have a uvarint length in front.

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errRecord  = errors.New("malformed record")
)

// reader takes fields off the front; after the first that is not there it only returns zeros.
type reader struct {
	rest   []byte
	failed bool
}

const noTime = math.MinInt64 // the zero time.Time

// seal appends the checksum.
func seal(key, fields []byte) []byte {
	return binary.BigEndian.AppendUint32(fields, checksum(key, fields))
}

// unseal checks and removes the checksum.
func unseal(key, record []byte) ([]byte, error) {
	end := len(record) - 4
	if end < 0 {
		return nil, fmt.Errorf("%w: %d bytes", errRecord, len(record))
	}
	if fields := record[:end:end]; checksum(key, fields) == binary.BigEndian.Uint32(record[end:]) {
		return fields, nil
	}
	return nil, fmt.Errorf("%w: wrong checksum", errRecord)
}

func checksum(key, fields []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, fields)
}

func seqKey(seq int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(seq)) }

// keySeq is the reverse; 0, which is no sequence, for what is no such key.
func keySeq(key []byte) int64 {
	if len(key) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(key))
}

const flagAccepted = 1

func encodeEntry(e ledger.Entry) []byte {
	b := make([]byte, 0, 96+len(e.MessageID)+len(e.Reason))
	return seal(seqKey(e.StoreSeq), appendEntry(b, e))
}

// appendEntry encodes all of an entry but its sequence.
func appendEntry(b []byte, e ledger.Entry) []byte {
	flags := byte(0)
	if e.Accepted {
		flags |= flagAccepted
	}
	b = append(b, byte(e.Status), flags)
	b = appendTime(b, e.StoredAt)
	b = appendTime(b, e.Since)
	b = binary.AppendUvarint(b, uint64(e.Attempts))
	b = binary.AppendUvarint(b, uint64(e.Uncounted))
	b = binary.AppendUvarint(b, uint64(e.PayloadBytes))
	b = append(b, e.Digest[:]...)
	b = appendText(b, e.MessageID)
	return appendText(b, e.Reason)
}

func decodeEntry(key, record []byte) (ledger.Entry, error) {
	fields, err := unseal(key, record)
	if err != nil {
		return ledger.Entry{}, err
	}
	r := reader{rest: fields}
	e := r.entry()
	e.StoreSeq = keySeq(key)
	switch {
	case r.failed || len(r.rest) > 0:
		return ledger.Entry{}, fmt.Errorf("%w: fields", errRecord)
	case e.StoreSeq < 1 || e.MessageID == "" || e.Status < ledger.Stored || e.Status > ledger.Dropped:
		return ledger.Entry{}, fmt.Errorf("%w: sequence %d, status %d", errRecord, e.StoreSeq, e.Status)
	case e.Settled() != (e.PayloadBytes == 0):
		return ledger.Entry{}, fmt.Errorf("%w: %s with %d bytes of payload", errRecord, e.Status, e.PayloadBytes)
	}
	return e, nil
}

// entry reads what appendEntry wrote.
func (r *reader) entry() ledger.Entry {
	e := ledger.Entry{Status: ledger.Status(r.byte())}
	flags := r.byte()
	e.Accepted = flags&flagAccepted != 0
	e.StoredAt, e.Since = r.time(), r.time()
	e.Attempts, e.Uncounted, e.PayloadBytes = r.count(), r.count(), r.count()
	copy(e.Digest[:], r.bytes(len(e.Digest)))
	e.MessageID, e.Reason = r.text(), r.text()
	r.failed = r.failed || flags&^flagAccepted != 0
	return e
}

// partBytes is the most of one job that goes under one key. The engine keeps at least two records in a run of pages and
// rewrites the last run with each append, so larger records would be written several times; and of these a commit
// never needs more than two adjacent free pages, which a full disk still has (see space).
const partBytes = 1800

// encodeJob makes the fields of a job. They are cut into parts and sealed when the job has its sequence.
func encodeJob(job protocol.Job) []byte {
	size := 16 + len(job.MessageID) + len(job.Payload)
	for key, value := range job.Headers {
		size += 8 + len(key) + len(value)
	}
	b := appendText(make([]byte, 0, size), job.MessageID)
	b = binary.AppendUvarint(b, uint64(len(job.Headers)))
	for _, key := range slices.Sorted(maps.Keys(job.Headers)) {
		b = appendText(b, key)
		b = appendText(b, job.Headers[key])
	}
	return append(b, job.Payload...)
}

func decodeJob(fields []byte) (protocol.Job, error) {
	r := reader{rest: fields}
	job := protocol.Job{MessageID: r.text()}
	if n := r.count(); n > 0 && n <= protocol.MaxHeaders {
		job.Headers = make(map[string]string, n)
		for range n {
			key := r.text()
			job.Headers[key] = r.text()
		}
	} else if n > protocol.MaxHeaders {
		r.failed = true
	}
	if r.failed || job.MessageID == "" || len(r.rest) == 0 {
		return protocol.Job{}, fmt.Errorf("%w: fields", errRecord)
	}
	job.Payload = slices.Clone(r.rest)
	return job, nil
}

// partKey is where a part of a job lives.
func partKey(seq int64, part int) []byte {
	return binary.BigEndian.AppendUint16(seqKey(seq), uint16(part))
}

// encodeParts cuts the fields of a job into sealed records; the first says how many there are.
func encodeParts(seq int64, fields []byte) [][]byte {
	count := (len(fields) + partBytes - 1) / partBytes
	parts := make([][]byte, 0, count)
	for chunk := range slices.Chunk(fields, partBytes) {
		b := make([]byte, 0, binary.MaxVarintLen16+len(chunk)+4)
		if len(parts) == 0 {
			b = binary.AppendUvarint(b, uint64(count))
		}
		parts = append(parts, seal(partKey(seq, len(parts)), append(b, chunk...)))
	}
	return parts
}

// decodeParts is the reverse; get finds a record, nil if there is none. Without a first part there is no job and no error.
func decodeParts(seq int64, get func(key []byte) []byte) (fields []byte, err error) {
	count := 1
	for part := 0; part < count; part++ {
		key := partKey(seq, part)
		record := get(key)
		if record == nil && part == 0 {
			return nil, nil
		}
		chunk, err := unseal(key, record)
		if err != nil {
			return nil, fmt.Errorf("part %d: %w", part, err)
		}
		if part == 0 {
			r := reader{rest: chunk}
			count = r.count()
			if chunk = r.rest; count < 1 || count > maxParts {
				return nil, fmt.Errorf("%w: %d parts", errRecord, count)
			}
			fields = make([]byte, 0, count*len(chunk))
		}
		fields = append(fields, chunk...)
	}
	return fields, nil
}

// maxParts bounds what a damaged count can ask for.
const maxParts = (protocol.MaxPayloadBytes+protocol.MaxHeaderBytes)/partBytes + 2

// state is the one record that every commit rewrites.
type state struct {
	epoch  queue.Epoch
	cursor int64
	stored int64 // entries of status Stored
	dead   int64 // entries of status DeadLettered
	owner  string
}

// valid tells whether the counters can be those of any queue.
func (s state) valid() bool {
	return s.cursor >= 0 && s.stored >= 0 && s.dead >= 0 && s.stored+s.dead <= s.cursor
}

func encodeState(key []byte, s state) []byte { return seal(key, appendState(nil, s)) }

func appendState(b []byte, s state) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(s.epoch))
	for _, n := range [...]int64{s.cursor, s.stored, s.dead} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return appendText(b, s.owner)
}

func (r *reader) state() state {
	return state{epoch: queue.Epoch(r.int64()), cursor: r.int64(), stored: r.int64(), dead: r.int64(), owner: r.text()}
}

func decodeState(key, record []byte) (state, error) {
	fields, err := unseal(key, record)
	if err != nil {
		return state{}, err
	}
	r := reader{rest: fields}
	s := r.state()
	if r.failed || len(r.rest) > 0 || !s.valid() {
		return state{}, fmt.Errorf("%w: fields", errRecord)
	}
	return s, nil
}

func encodeAudit(key []byte, line queue.AuditLine) []byte { return seal(key, appendAudit(nil, line)) }

// appendAudit encodes all of a line but its number.
func appendAudit(b []byte, line queue.AuditLine) []byte {
	b = appendTime(b, line.At)
	b = binary.BigEndian.AppendUint64(b, uint64(line.StoreSeq))
	for _, text := range [...]string{line.Action, line.MessageID, line.Text} {
		b = appendText(b, text)
	}
	return b
}

func (r *reader) audit() queue.AuditLine {
	line := queue.AuditLine{At: r.time(), JobRef: queue.JobRef{StoreSeq: r.int64()}}
	line.Action, line.MessageID, line.Text = r.text(), r.text(), r.text()
	return line
}

func decodeAudit(key, record []byte) (queue.AuditLine, error) {
	fields, err := unseal(key, record)
	if err != nil {
		return queue.AuditLine{}, err
	}
	r := reader{rest: fields}
	line := r.audit()
	if r.failed || len(r.rest) > 0 || len(key) != 8 {
		return queue.AuditLine{}, fmt.Errorf("%w: fields", errRecord)
	}
	line.Number = binary.BigEndian.Uint64(key)
	return line, nil
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTime(b []byte, t time.Time) []byte {
	nanos := int64(noTime)
	if !t.IsZero() {
		nanos = t.UnixNano()
	}
	return binary.BigEndian.AppendUint64(b, uint64(nanos))
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.failed, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.bytes(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) time() time.Time {
	if nanos := r.int64(); nanos != noTime && !r.failed {
		return time.Unix(0, nanos).UTC()
	}
	return time.Time{}
}

func (r *reader) count() int {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > math.MaxInt {
		r.failed, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return int(n)
}

func (r *reader) text() string { return string(r.bytes(r.count())) }

// encodeJournal says where the tree stands in the journal.
func encodeJournal(key []byte, shape journalShape, mark journalMark) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(shape.half))
	b = append(b, shape.salt[:]...)
	b = binary.BigEndian.AppendUint64(b, mark.generation)
	return seal(key, binary.BigEndian.AppendUint64(b, mark.number))
}

func decodeJournal(key, record []byte) (shape journalShape, mark journalMark, err error) {
	fields, err := unseal(key, record)
	if err != nil {
		return shape, mark, err
	}
	r := reader{rest: fields}
	shape.half = r.int64()
	copy(shape.salt[:], r.bytes(len(shape.salt)))
	mark = journalMark{generation: uint64(r.int64()), number: uint64(r.int64())}
	if r.failed || len(r.rest) > 0 || shape.half < smallestHalf || shape.half > largestHalf || shape.half%journalBlock != 0 {
		return shape, mark, fmt.Errorf("%w: fields", errRecord)
	}
	return shape, mark, nil
}
