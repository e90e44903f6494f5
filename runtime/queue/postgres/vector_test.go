package postgres

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// A batch takes about the memory of its jobs, whatever the size of the first one.
func TestMemoryOfABatchOfUnlikeJobs(t *testing.T) {
	const large, jobs = 1 << 20, 1000
	entries := make([]*held, jobs)
	for i := range entries {
		b := body{payload: []byte("x")}
		if i == 0 {
			b.payload = make([]byte, large)
		}
		ref := queue.JobRef{MessageID: fmt.Sprintf("job-%d", i), StoreSeq: int64(i + 1)}
		entries[i] = &held{after: ledger.Entry{JobRef: ref, Status: ledger.Stored, PayloadBytes: len(b.payload)}, body: b, fresh: true}
	}
	w := writer{b: &pgx.Batch{}, sql: &statements{}}
	w.insertJobs(entries)
	for i, argument := range w.b.QueuedQueries[0].Arguments {
		if v, ok := argument.(vector); ok {
			if n := cap(v.encode(pgtype.ByteaOID, nil)); n > 2*large {
				t.Errorf("argument %d takes %d bytes", i, n)
			}
		}
	}
}
