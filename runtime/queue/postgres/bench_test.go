package postgres_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/postgres"
	"github.com/workpulling/workpulling/runtime/queue/postgres/postgrestest"
)

// BenchmarkLife takes jobs of 256 B through their lives as a flow under load does: each batch stores some, accepts those of the batch before,
// and confirms those that are three batches old. An operation is a job. It tells the processor time of the server and the WAL for each.
func BenchmarkLife(b *testing.B) {
	for _, batch := range []int{1, 16, 340} {
		b.Run(strconv.Itoa(batch), func(b *testing.B) { benchmarkLife(b, batch) })
	}
}

func benchmarkLife(b *testing.B, size int) {
	b.Helper()
	server := postgrestest.Shared(b)
	database := server.Database(b)
	super, err := pgx.Connect(b.Context(), server.SuperURL(database))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = super.Close(context.Background()) }()
	q, err := postgres.New(b.Context(), optionsAt(server.Address(), database))
	if err != nil {
		b.Fatal(err)
	}
	defer q.Close()
	_, _, epoch := load(b, q)
	var history [][]queue.JobRef
	cursor := int64(0)
	turn := func() {
		batch := queue.Batch{Cursor: cursor}
		var refs []queue.JobRef
		for i := range size {
			request := requestOf(cursor + int64(i) + 1)
			batch.Stores = append(batch.Stores, request)
			refs = append(refs, refTo(cursor+int64(i)+1, request.Job.MessageID))
		}
		if n := len(history); n > 0 {
			batch.Accepts = history[n-1]
		}
		if n := len(history); n > 2 {
			batch.Confirms = history[n-3]
			history = history[n-2:]
		}
		history = append(history, refs)
		cursor = apply(b, q, epoch, batch).Cursor
	}
	for range 8 {
		turn()
	}
	before, wal := serverTime(b, super), walPosition(b, super)
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += size {
		turn()
	}
	b.StopTimer()
	jobs := float64((b.N + size - 1) / size * size)
	b.ReportMetric(float64((serverTime(b, super)-before).Microseconds())/jobs, "server-µs/job")
	b.ReportMetric(float64(walPosition(b, super)-wal)/jobs, "WAL-B/job")
}

func requestOf(seq int64) queue.StoreRequest {
	hash := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(seq)))
	payload := make([]byte, 0, 256)
	for len(payload) < 256 {
		payload = append(payload, hash[:]...)
	}
	return queue.StoreRequest{Digest: hash, Job: protocol.Job{
		MessageID: fmt.Sprintf("%x", hash[:16]), Payload: payload, Headers: map[string]string{protocol.HeaderContentType: "application/octet-stream"},
	}}
}

// serverTime is the processor time that the processes of a server have used.
func serverTime(b *testing.B, super *pgx.Conn) (sum time.Duration) {
	b.Helper()
	rows, err := super.Query(b.Context(), "SELECT pid FROM pg_stat_activity")
	if err != nil {
		b.Fatal(err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		b.Fatal(err)
	}
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended meanwhile
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		for _, field := range fields[11:13] { // user and system, in hundredths of a second
			ticks, err := strconv.Atoi(field)
			if err != nil {
				b.Fatal(err)
			}
			sum += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return sum
}

func walPosition(b *testing.B, super *pgx.Conn) (position int64) {
	b.Helper()
	if err := super.QueryRow(b.Context(), "SELECT (pg_current_wal_lsn() - '0/0')::bigint").Scan(&position); err != nil {
		b.Fatal(err)
	}
	return position
}
