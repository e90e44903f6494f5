package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/postgres"
	"github.com/workpulling/workpulling/runtime/queue/postgres/postgrestest"
	"github.com/workpulling/workpulling/runtime/queue/queuetest"
)

// crate stores jobs of a size one by one, and knows which of them the queue has.
type crate struct {
	q      *postgres.Queue
	epoch  queue.Epoch
	cursor int64
	bytes  int
}

func (c *crate) id(seq int64) string { return fmt.Sprintf("job-%d", seq) }

func (c *crate) ref(seq int64) queue.JobRef { return refTo(seq, c.id(seq)) }

func (c *crate) request(seq int64) queue.StoreRequest {
	return queue.StoreRequest{Job: protocol.Job{MessageID: c.id(seq), Payload: make([]byte, c.bytes)}, Digest: queue.Digest{1}}
}

func (c *crate) store(t testing.TB) error {
	t.Helper()
	result, err := c.q.Apply(t.Context(), c.epoch, queue.Batch{Cursor: c.cursor, Stores: []queue.StoreRequest{c.request(c.cursor + 1)}})
	if err == nil {
		c.cursor++
		if result.Cursor != c.cursor || result.Stores[0].StoreSeq != c.cursor {
			t.Fatalf("job %d was stored as %+v", c.cursor, result)
		}
	}
	return err
}

func (c *crate) storeAll(t testing.TB, jobs int) {
	t.Helper()
	for range jobs {
		if err := c.store(t); err != nil {
			t.Fatal(err)
		}
	}
}

// verify loads the queue: it holds all jobs from a first to the last, whole, and nothing else.
func (c *crate) verify(t testing.TB, first int64) {
	t.Helper()
	rows, state, epoch := load(t, c.q)
	c.epoch = epoch
	if state.Cursor != c.cursor || int64(len(rows)) != c.cursor-first+1 {
		t.Fatalf("%d rows at cursor %d, want those from %d to %d", len(rows), state.Cursor, first, c.cursor)
	}
	for i, row := range rows {
		if row.JobRef != c.ref(first+int64(i)) {
			t.Fatalf("row %d is %+v", i, row)
		}
		jobs, err := c.q.ReadJobs(t.Context(), []int64{row.StoreSeq})
		if err != nil || len(jobs[0].Payload) != c.bytes {
			t.Fatalf("job %d has %d bytes, error %v", row.StoreSeq, len(jobs[0].Payload), err)
		}
	}
}

// full fails the test for anything but the answer of a queue that takes no jobs, which says why.
func full(t testing.TB, what string, err error, why string) {
	t.Helper()
	retriable(t, what, err)
	if !errors.Is(err, queue.ErrFull) || err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%s: error %v, want a full queue's: %s", what, err, why)
	}
}

// A file system that is full costs new jobs, which are told so, and nothing else: what is stored is known, is there and can be read, taken
// over and settled, and with room again the queue goes on under the same epoch (B-239).
func TestDiskFull(t *testing.T) {
	server := postgrestest.Start(t)
	volume := server.Volume(t, 32)
	database := server.Database(t)
	for _, sql := range []string{
		fmt.Sprintf("CREATE TABLESPACE small LOCATION '%s'", volume), "ALTER DATABASE " + database + " SET TABLESPACE small",
	} {
		if err := server.Exec(t.Context(), "postgres", sql); err != nil {
			t.Fatal(err)
		}
	}
	c := &crate{q: opened(t, optionsAt(server.Address(), database)), bytes: 64 << 10}
	_, _, c.epoch = load(t, c.q)
	const why = "No space left on device"
	c.storeAll(t, 1)
	apply(t, c.q, c.epoch, queue.Batch{Accepts: []queue.JobRef{c.ref(1)}, Confirms: []queue.JobRef{c.ref(1)}})
	first := int64(2)
	for round := range 3 {
		c.storeAll(t, 20)
		release := queuetest.Fill(t, volume)
		var err error
		for stored := 0; err == nil && stored < 200; stored++ {
			err = c.store(t)
		}
		for range 100 / (1 + 10*round) { // each leaves a dead row among the ids, until there is no room for another either
			full(t, "a store", err, why)
			err = c.store(t)
		}
		t.Logf("round %d: full after %d jobs: %v", round, c.cursor, err)
		for _, known := range []int64{1, first, c.cursor} { // one whose id memory does not hold, and others
			result, err := c.q.Apply(t.Context(), c.epoch, queue.Batch{Cursor: c.cursor, Stores: []queue.StoreRequest{c.request(known)}})
			if err != nil || result.Stores[0].StoreSeq != known || result.Cursor != c.cursor {
				t.Errorf("a repeat of job %d of %d on a full disk: %+v, error %v", known, c.cursor, result, err)
			}
		}
		if round == 1 {
			c.verify(t, first)
			for _, known := range []int64{first, c.cursor} {
				if _, found, err := c.q.Lookup(t.Context(), c.id(known)); !found || err != nil {
					t.Errorf("job %d: found %v, error %v", known, found, err)
				}
			}
		}
		settled := 0
		for range 10 {
			_, err := c.q.Apply(t.Context(), c.epoch, queue.Batch{Accepts: []queue.JobRef{c.ref(first)}, Confirms: []queue.JobRef{c.ref(first)}})
			if err != nil {
				full(t, "a confirm", err, why)
				break
			}
			first++
			settled++
		}
		if settled == 0 { // their rows need no more than a page that is there
			t.Errorf("round %d: nothing can be settled on a full disk", round)
		}
		release()
		if err := c.store(t); err != nil {
			t.Fatalf("with room again: %v", err)
		}
	}
	c.verify(t, first)
}

// A server that finds no room for its write-ahead log panics. What it was told then may have happened, so it is no full queue's answer; with
// room again the server recovers, and the queue goes on with what it had acknowledged.
func TestLogDiskFull(t *testing.T) {
	server := postgrestest.Start(t, "max_wal_size=32MB", "min_wal_size=32MB")
	volume := server.Volume(t, 80)
	database := server.Database(t)
	server.MoveLog(t, volume)
	c := &crate{q: opened(t, optionsAt(server.Address(), database)), bytes: 1 << 20}
	_, _, c.epoch = load(t, c.q)
	c.storeAll(t, 3)
	release := queuetest.Fill(t, volume)
	var err error
	for stored := 0; err == nil && stored < 200; stored++ {
		err = c.store(t)
	}
	t.Logf("after %d jobs: %v", c.cursor, err)
	retriable(t, "a store", err)
	for range 3 {
		if errors.Is(err, queue.ErrFull) {
			t.Errorf("a panic is taken for a full queue: %v", err)
		}
		err = c.store(t)
		retriable(t, "a store", err)
	}
	release()
	eventually(t, func() error {
		if server.Ended() {
			if err := server.Run(); err != nil {
				t.Fatal(err)
			}
		}
		return c.store(t)
	})
	c.storeAll(t, 3)
	c.verify(t, 1)
}

// Only an error ends a transaction for sure. A panic may come after the commit.
func TestAPanicIsNoFullQueue(t *testing.T) {
	q := opened(t, optionsAt(postgrestest.Shared(t).Address(), postgrestest.Shared(t).Database(t)))
	for severity, want := range map[string]bool{"ERROR": true, "FATAL": false, "PANIC": false} {
		for _, code := range []string{"53100", "25006"} {
			err := postgres.Place(t.Context(), q, &pgconn.PgError{SeverityUnlocalized: severity, Code: code})
			retriable(t, severity, err)
			if got := errors.Is(err, queue.ErrFull); got != want {
				t.Errorf("%s %s: full %v, want %v", severity, code, got, want)
			}
		}
	}
	if err := postgres.Place(t.Context(), q, &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "53200"}); errors.Is(err, queue.ErrFull) {
		t.Errorf("no memory is taken for no room: %v", err)
	}
}
