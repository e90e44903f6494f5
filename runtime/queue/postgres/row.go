package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// scanEntry reads the columns of entryOfJob and checks all that one row can tell by itself.
func scanEntry(row pgx.CollectableRow) (ledger.Entry, error) { return scanEntryAnd(row) }

// scanEntryAnd reads the columns that follow those of an entry into rest.
func scanEntryAnd(row pgx.CollectableRow, rest ...any) (ledger.Entry, error) {
	e, sum, err := readEntry(row, rest...)
	if err == nil && (sum != checksum(e) || e.StoreSeq < 1 || e.MessageID == "" || e.Settled() != (e.PayloadBytes == 0) ||
		min(e.Attempts, e.Uncounted, e.PayloadBytes) < 0) {
		err = fmt.Errorf("%w: the row of sequence %d is damaged", queue.ErrConflict, e.StoreSeq)
	}
	return e, err
}

// readEntry reads an entry and its checksum, right or wrong.
func readEntry(row pgx.CollectableRow, rest ...any) (e ledger.Entry, sum int64, err error) {
	var (
		status                  int16
		attempts, uncounted, at int64
		since                   *int64
		id, digest, reason      []byte
	)
	targets := append([]any{
		&e.StoreSeq, &status, &e.Accepted, &attempts, &uncounted, &e.PayloadBytes, &at, &since, &sum, &id, &digest, &reason,
	}, rest...)
	if err := row.Scan(targets...); err != nil {
		return ledger.Entry{}, 0, err
	}
	if len(digest) != len(e.Digest) || status < int16(ledger.Stored) || status > int16(ledger.Dropped) {
		return ledger.Entry{}, 0, fmt.Errorf("%w: the row of sequence %d is damaged", queue.ErrConflict, e.StoreSeq)
	}
	e.Status, e.Digest = ledger.Status(status), queue.Digest(digest)
	e.MessageID, e.Reason, e.StoredAt = string(id), string(reason), fromNanos(at)
	e.Attempts, e.Uncounted = int(attempts), int(uncounted)
	if since != nil {
		e.Since = fromNanos(*since)
	}
	return e, sum, nil
}

// checksum covers all of an entry.
func checksum(e ledger.Entry) int64 { return checksumOf(appendEntry(nil, e)) }

func checksumOf(b []byte) int64 { return int64(crc32.Checksum(b, castagnoli)) }

// appendEntry appends what the checksum of an entry covers.
func appendEntry(b []byte, e ledger.Entry) []byte {
	b = slices.Grow(b, 128+len(e.MessageID)+len(e.Reason))
	accepted, since := uint64(0), uint64(0)
	if e.Accepted {
		accepted = 1
	}
	if !e.Since.IsZero() {
		since = uint64(e.Since.UnixNano()) ^ (1 << 63)
	}
	for _, n := range [...]uint64{
		uint64(e.StoreSeq), uint64(e.Status), accepted, uint64(e.Attempts), uint64(e.Uncounted), uint64(e.PayloadBytes),
		uint64(e.StoredAt.UnixNano()), since, uint64(len(e.MessageID)),
	} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return append(append(append(b, e.Digest[:]...), e.MessageID...), e.Reason...)
}

func fromNanos(n int64) time.Time { return time.Unix(0, n).UTC() }

// sinceOf is nil while there is nothing to date.
func sinceOf(e ledger.Entry) *int64 {
	if e.Since.IsZero() {
		return nil
	}
	n := e.Since.UnixNano()
	return &n
}

// body is a job as its two columns hold it.
type body struct{ headers, payload []byte }

// bodyOf copies a job. Headers are pairs of texts, each with its length in front, sorted.
func bodyOf(job protocol.Job) body {
	size := 0
	keys := make([]string, 0, len(job.Headers))
	for key, value := range job.Headers {
		keys = append(keys, key)
		size += len(key) + len(value) + 2*binary.MaxVarintLen32
	}
	slices.Sort(keys)
	b := make([]byte, 0, size+len(job.Payload)) // the column of headers is never null
	for _, key := range keys {
		b = appendText(appendText(b, key), job.Headers[key])
	}
	end := len(b)
	b = append(b, job.Payload...)
	return body{headers: b[:end:end], payload: b[end:]}
}

func (b body) checksum(ref queue.JobRef) int64 { return b.checksumAfter(b.appendHead(nil, ref)) }

// appendHead appends what the checksum of a job covers before its payload.
func (b body) appendHead(head []byte, ref queue.JobRef) []byte {
	head = binary.BigEndian.AppendUint64(head, uint64(ref.StoreSeq))
	head = append(appendText(head, ref.MessageID), b.headers...)
	return binary.BigEndian.AppendUint64(head, uint64(len(b.headers)))
}

func (b body) checksumAfter(head []byte) int64 {
	return int64(crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, b.payload))
}

// scanJob reads sequence, id, headers, payload and checksum.
func scanJob(row pgx.CollectableRow) (jobRow, error) {
	var (
		seq, sum int64
		id       []byte
		b        body
	)
	if err := row.Scan(&seq, &id, &b.headers, &b.payload, &sum); err != nil {
		return jobRow{}, err
	}
	j := jobRow{seq: seq, job: protocol.Job{MessageID: string(id), Payload: b.payload}}
	headers, err := b.decodeHeaders()
	if err != nil || len(b.payload) == 0 || sum != b.checksum(queue.JobRef{MessageID: j.job.MessageID, StoreSeq: seq}) {
		return jobRow{}, fmt.Errorf("%w: the job of sequence %d is damaged", queue.ErrConflict, seq)
	}
	j.job.Headers = headers
	return j, nil
}

type jobRow struct {
	seq int64
	job protocol.Job
}

func (b body) decodeHeaders() (map[string]string, error) {
	if len(b.headers) == 0 {
		return nil, nil
	}
	headers := map[string]string{}
	for rest := b.headers; len(rest) > 0; {
		var key, value string
		var ok, fine bool
		key, rest, ok = cutText(rest)
		value, rest, fine = cutText(rest)
		if !ok || !fine {
			return nil, errors.New("malformed headers")
		}
		headers[key] = value
	}
	return headers, nil
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func cutText(b []byte) (text string, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return "", nil, false
	}
	return string(b[size : size+int(n)]), b[size+int(n):], true
}
