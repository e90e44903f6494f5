package postgres_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
	"github.com/workpulling/workpulling/runtime/queue/postgres"
	"github.com/workpulling/workpulling/runtime/queue/postgres/postgrestest"
)

// Tables of format 1 hold the same after the migration: jobs, dead letters and tombstones with the windows that run.
func TestMigrationFromFormat1(t *testing.T) {
	server := postgrestest.Shared(t)
	database := server.Database(t)
	now := time.Unix(1_000_000, 0).UTC()
	entry := func(seq int64, id string, status ledger.Status, change func(*ledger.Entry)) ledger.Entry {
		e := ledger.Entry{
			JobRef: refTo(seq, id), Digest: queue.Digest{1}, Status: status, Accepted: true, StoredAt: now.Add(time.Duration(seq) * time.Second),
		}
		if !e.Settled() {
			e.PayloadBytes = len("payload of " + id)
		}
		change(&e)
		return e
	}
	asItIs := func(*ledger.Entry) {}
	entries := []ledger.Entry{
		entry(1, "confirmed", ledger.Confirmed, func(e *ledger.Entry) { e.Since = now }),
		entry(2, "orphan", ledger.Confirmed, func(e *ledger.Entry) { e.Accepted, e.Attempts = false, 3 }),
		entry(3, "dropped", ledger.Dropped, func(e *ledger.Entry) { e.Since, e.Attempts = now.Add(time.Minute), 20 }),
		entry(4, "dead", ledger.DeadLettered, func(e *ledger.Entry) { e.Since, e.Attempts, e.Reason = now, 20, "why" }),
		entry(5, "stored", ledger.Stored, asItIs),
		entry(7, "tried", ledger.Stored, func(e *ledger.Entry) { e.Accepted, e.Attempts, e.Uncounted = false, 2, 1 }),
	}
	if err := postgres.Format1(t.Context(), server.URL(database), "flow", 7, entries); err != nil {
		t.Fatal(err)
	}
	options := optionsAt(server.Address(), database)
	options.Clock = func() time.Time { return now }
	q := opened(t, options)
	for _, e := range entries {
		if diff := cmp.Diff(e.State(), lookup(t, q, e.MessageID)); diff != "" {
			t.Errorf("%s: %s", e.MessageID, diff)
		}
	}
	rows, state, epoch := load(t, q)
	if diff := cmp.Diff([]queue.Row{entries[4].Row(), entries[5].Row()}, rows); diff != "" || state.Cursor != 7 || state.DeadLetters != 1 || epoch != 4 || state.Format != 2 {
		t.Errorf("state %+v, epoch %d, rows %s", state, epoch, diff)
	}
	result := apply(t, q, epoch, queue.Batch{Cursor: 7, Stores: requests("confirmed", "stored", "dropped", "new", "dead")})
	want := []queue.StoreResult{
		{StoreSeq: 1, Verdict: protocol.AlreadyConfirmed}, {StoreSeq: 5, Verdict: protocol.AlreadyStored}, {StoreSeq: 3, Verdict: protocol.AlreadyDeadLettered},
		{StoreSeq: 8, Verdict: protocol.StoredNew}, {StoreSeq: 4, Verdict: protocol.AlreadyDeadLettered},
	}
	if diff := cmp.Diff(want, result.Stores); diff != "" {
		t.Error(diff)
	}
	jobs, err := q.ReadJobs(t.Context(), []int64{5, 1})
	if err != nil || string(jobs[0].Payload) != "payload of stored" || jobs[1].MessageID != "" {
		t.Errorf("jobs %+v, error %v", jobs, err)
	}
	now = now.Add(90 * time.Second)
	apply(t, q, epoch, queue.Batch{Accepts: []queue.JobRef{refTo(2, "orphan")}, Confirms: []queue.JobRef{refTo(5, "stored"), refTo(4, "dead")}})
	for _, step := range []struct {
		after time.Duration
		gone  int
	}{{30 * time.Second, 0}, {time.Hour - 2*time.Minute, 1}, {time.Minute, 1}, {30 * time.Second, 3}, {time.Hour, 0}} {
		now = now.Add(step.after)
		if n, err := q.Compact(t.Context(), epoch, 10); n != step.gone || err != nil {
			t.Errorf("at %v: %d are forgotten, want %d; error %v", now, n, step.gone, err)
		}
	}
	if rows, _, _ := load(t, q); len(rows) != 2 || rows[0].JobRef != refTo(7, "tried") || rows[1].JobRef != refTo(8, "new") {
		t.Errorf("rows %v", rows)
	}
}

// What a flow has left in tables of format 1 can be removed without a migration, which writers of other flows may not be ready for.
func TestRemoveFromFormat1(t *testing.T) {
	server := postgrestest.Shared(t)
	database := server.Database(t)
	now := time.Unix(1_000_000, 0).UTC()
	entries := []ledger.Entry{
		{JobRef: refTo(1, "settled"), Status: ledger.Confirmed, Accepted: true, StoredAt: now, Since: now},
		{JobRef: refTo(2, "stored"), Status: ledger.Stored, PayloadBytes: len("payload of stored"), StoredAt: now},
	}
	options := optionsAt(server.Address(), database)
	if err := postgres.Format1(t.Context(), server.URL(database), options.FlowUID, 2, entries); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if found, err := postgres.Remove(t.Context(), options); found != want || err != nil {
			t.Fatalf("found %t, want %t, %v", found, want, err)
		}
	}
	check := `DO $$ BEGIN IF EXISTS (SELECT FROM workpulling.jobs) OR EXISTS (SELECT FROM workpulling.settled) OR EXISTS (SELECT FROM workpulling.flows)
		OR (SELECT version FROM workpulling.format) <> 1 THEN RAISE 'rows are left, or it is another format'; END IF; END $$`
	if err := server.Exec(t.Context(), database, check); err != nil {
		t.Error(err)
	}
}
