package postgres

import (
	"errors"
	"maps"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// fuzzedRow gives its values to whoever scans it.
type fuzzedRow struct {
	pgx.CollectableRow
	values []any
}

func (r fuzzedRow) FieldDescriptions() []pgconn.FieldDescription { return nil }

func (r fuzzedRow) Scan(targets ...any) error {
	if len(targets) != len(r.values) {
		return errors.New("another number of columns")
	}
	for i, target := range targets {
		switch t := target.(type) {
		case *int64:
			*t, _ = r.values[i].(int64)
		case **int64:
			*t, _ = r.values[i].(*int64)
		case *int16:
			*t, _ = r.values[i].(int16)
		case *int:
			*t, _ = r.values[i].(int)
		case *bool:
			*t, _ = r.values[i].(bool)
		case *[]byte:
			*t, _ = r.values[i].([]byte)
		default:
			return errors.New("a column of another type")
		}
	}
	return nil
}

// A row that counts below zero is a conflict, also under a right checksum: its job would never run out of attempts. Found by FuzzScanEntry.
func TestNegativeCountsAreAConflict(t *testing.T) {
	for name, counts := range map[string][3]int64{"attempts": {-1, 0, 7}, "uncounted": {0, -12, 7}, "payload": {0, 0, -7}} {
		row := fuzzedRow{values: []any{
			int64(1), int16(ledger.Stored), true, counts[0], counts[1], int(counts[2]), int64(0), (*int64)(nil), int64(0), []byte("id"),
			make([]byte, len(queue.Digest{})), []byte(nil),
		}}
		e, _, err := readEntry(row)
		if err != nil {
			t.Fatal(err)
		}
		row.values[8] = checksum(e)
		if e, err := scanEntry(row); !errors.Is(err, queue.ErrConflict) {
			t.Errorf("%s: %+v, error %v", name, e, err)
		}
	}
}

// FuzzScanEntry reads any row of the table of entries, under its own checksum and a right one: it is a conflict, or an entry that can be
// (G-122).
func FuzzScanEntry(f *testing.F) {
	digest := make([]byte, len(queue.Digest{}))
	f.Add(int64(1), int16(ledger.Stored), true, int64(0), int64(0), 7, int64(0), int64(0), false, []byte("id"), digest, []byte(""))
	f.Add(int64(1), int16(ledger.Confirmed), true, int64(2), int64(1), 0, int64(5), int64(9), true, []byte("id"), digest, []byte("why"))
	f.Add(int64(0), int16(-1), false, int64(-1), int64(1)<<62, -1, int64(-1)<<63, int64(0), true, []byte{}, []byte("short"), []byte{0xff})
	f.Fuzz(func(t *testing.T, seq int64, status int16, accepted bool, attempts, uncounted int64, size int, at, since int64, dated bool, id, digest, reason []byte) {
		var sincePtr *int64
		if dated {
			sincePtr = &since
		}
		row := func(sum int64) fuzzedRow {
			return fuzzedRow{values: []any{seq, status, accepted, attempts, uncounted, size, at, sincePtr, sum, id, digest, reason}}
		}
		unsealed, _, err := readEntry(row(0))
		if err != nil {
			if !errors.Is(err, queue.ErrConflict) {
				t.Errorf("error %v is no conflict", err)
			}
			return
		}
		if e, err := scanEntry(row(checksum(unsealed) + 1)); err == nil {
			t.Errorf("%+v is taken with a wrong checksum", e)
		}
		e, err := scanEntry(row(checksum(unsealed)))
		if err != nil {
			if !errors.Is(err, queue.ErrConflict) {
				t.Errorf("error %v is no conflict", err)
			}
			return
		}
		if e.StoreSeq < 1 || e.MessageID == "" || e.Settled() != (e.PayloadBytes == 0) || e.Attempts < 0 || e.Uncounted < 0 || e.PayloadBytes < 0 {
			t.Errorf("it takes %+v", e)
		}
	})
}

// FuzzDecodeHeaders reads any bytes as the headers of a job: what it takes comes back as it was.
func FuzzDecodeHeaders(f *testing.F) {
	for _, headers := range []map[string]string{nil, {"k": "v"}, {"": "", "a": "1", "ключ": "значение"}} {
		f.Add(bodyOf(protocol.Job{Headers: headers}).headers, []byte("x"), int64(1), "id")
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, []byte{}, int64(0), "")
	f.Fuzz(func(t *testing.T, raw, payload []byte, seq int64, id string) {
		b := body{headers: raw, payload: payload}
		headers, err := b.decodeHeaders()
		if err == nil {
			again, err := bodyOf(protocol.Job{Headers: headers}).decodeHeaders()
			if err != nil || !maps.Equal(headers, again) {
				t.Errorf("%v became %v, error %v", headers, again, err)
			}
		}
		sum := b.checksum(queue.JobRef{MessageID: id, StoreSeq: seq})
		job, scanErr := scanJob(fuzzedRow{values: []any{seq, sum, []byte(id), raw, payload}})
		if scanErr == nil && (err != nil || len(payload) == 0 || job.job.MessageID != id) {
			t.Errorf("it takes %+v", job)
		}
		if scanErr != nil && !errors.Is(scanErr, queue.ErrConflict) {
			t.Errorf("error %v is no conflict", scanErr)
		}
	})
}
