package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/postgres"
	"github.com/workpulling/workpulling/runtime/queue/postgres/postgrestest"
)

// Processes that start at once on an empty database make the tables once, and the flow once.
func TestManyStartAtOnce(t *testing.T) {
	server := postgrestest.Shared(t)
	options := optionsAt(server.Address(), server.Database(t))
	queues := make([]*postgres.Queue, 6)
	var wg sync.WaitGroup
	for i := range queues {
		wg.Go(func() {
			q, err := postgres.New(t.Context(), options)
			if err != nil {
				t.Error(err)
				return
			}
			queues[i] = q
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	_, state, epoch := load(t, queues[0])
	if state.Format != postgres.Format || epoch != 1 {
		t.Errorf("format %d, epoch %d", state.Format, epoch)
	}
	for _, q := range queues {
		if postgres.Key(q) != postgres.Key(queues[0]) {
			t.Error("the flow has several rows")
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Tables of a newer build are refused and left alone, by a start and by a writer that is still there (ErrUnsupportedFormat).
func TestNewerFormat(t *testing.T) {
	server := postgrestest.Shared(t)
	database := server.Database(t)
	q := opened(t, optionsAt(server.Address(), database))
	_, _, epoch := load(t, q)
	if err := server.Exec(t.Context(), database, "UPDATE workpulling.format SET version = "+strconv.Itoa(postgres.Format+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.New(t.Context(), optionsAt(server.Address(), database)); !errors.Is(err, queue.ErrUnsupportedFormat) {
		t.Errorf("a start: error %v", err)
	}
	if _, err := q.Apply(t.Context(), epoch, queue.Batch{Stores: requests("a")}); !errors.Is(err, queue.ErrUnsupportedFormat) {
		t.Errorf("a writer: error %v", err)
	}
	if _, err := postgres.Remove(t.Context(), optionsAt(server.Address(), database)); !errors.Is(err, queue.ErrUnsupportedFormat) {
		t.Errorf("a removal: error %v", err)
	}
	if err := server.Exec(t.Context(), database, "UPDATE workpulling.format SET version = "+strconv.Itoa(postgres.Format)); err != nil {
		t.Fatal(err)
	}
	store(t, q, epoch, 0, "a")
}

// The rights that the documentation names are enough, and a right that is missing is an error that says so and may be repeated.
func TestRights(t *testing.T) {
	server := postgrestest.Shared(t)
	database := server.Database(t)
	if err := server.Exec(t.Context(), "postgres", "ALTER DATABASE "+database+" OWNER TO postgres; REVOKE ALL ON DATABASE "+database+" FROM PUBLIC"); err != nil {
		t.Fatal(err)
	}
	refused := func(what string) {
		t.Helper()
		_, err := postgres.New(t.Context(), optionsAt(server.Address(), database))
		retriable(t, what, err)
		if err != nil && !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: error %v", what, err)
		}
	}
	refused("no right to connect")
	if err := server.Exec(t.Context(), database, "GRANT CONNECT ON DATABASE "+database+" TO "+postgrestest.User); err != nil {
		t.Fatal(err)
	}
	refused("no right to create the schema")
	if err := server.Exec(t.Context(), database, "CREATE SCHEMA workpulling; GRANT USAGE, CREATE ON SCHEMA workpulling TO "+postgrestest.User); err != nil {
		t.Fatal(err)
	}
	q := opened(t, optionsAt(server.Address(), database))
	_, _, epoch := load(t, q)
	store(t, q, epoch, 0, "a")
}

// "Stored" means flushed, whatever the server's defaults are.
func TestDurability(t *testing.T) {
	t.Run("a server that does not wait for its commits is told to", func(t *testing.T) {
		server := postgrestest.Start(t, "synchronous_commit=off")
		q := opened(t, optionsAt(server.Address(), server.Database(t)))
		if value, err := postgres.Setting(t.Context(), q, "synchronous_commit"); err != nil || value != "on" {
			t.Errorf("synchronous_commit is %q, error %v", value, err)
		}
	})
	t.Run("a server that does not flush is refused", func(t *testing.T) {
		server := postgrestest.Start(t, "fsync=off")
		_, err := postgres.New(t.Context(), optionsAt(server.Address(), server.Database(t)))
		retriable(t, "opening", err)
		if !errors.Is(err, postgres.ErrNotDurable) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a stronger promise stays", func(t *testing.T) {
		server := postgrestest.Shared(t)
		database := server.Database(t)
		if err := server.Exec(t.Context(), "postgres", "ALTER DATABASE "+database+" SET synchronous_commit = remote_apply"); err != nil {
			t.Fatal(err)
		}
		if value, err := postgres.Setting(t.Context(), opened(t, optionsAt(server.Address(), database)), "synchronous_commit"); err != nil || value != "remote_apply" {
			t.Errorf("synchronous_commit is %q, error %v", value, err)
		}
	})
}

// A pooler may give each transaction another session than the one that was set up: a commit is flushed all the same.
func TestDurabilityOfATransactionAlone(t *testing.T) {
	server := postgrestest.Shared(t)
	database := server.Database(t)
	q := opened(t, optionsAt(server.Address(), database))
	demand := `CREATE FUNCTION public.demand() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF current_setting('synchronous_commit') <> 'on' THEN RAISE 'not durable'; END IF; RETURN NEW; END $$;
		CREATE CONSTRAINT TRIGGER demand AFTER UPDATE ON workpulling.flows DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.demand()`
	if err := server.Exec(t.Context(), database, demand); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Exec(t.Context(), q, "SET synchronous_commit = off"); err != nil {
		t.Fatal(err)
	}
	_, _, epoch := load(t, q)
	store(t, q, epoch, 0, "a")
	if value, err := postgres.Setting(t.Context(), q, "synchronous_commit"); err != nil || value != "off" {
		t.Fatalf("the session has %q: this test tests nothing; error %v", value, err)
	}
}

// Members may have clocks that are far apart. Tombstones age by the one that they share, the server's; here it is an hour ahead.
func TestTombstonesAgeByTheServersClock(t *testing.T) {
	server := postgrestest.Shared(t)
	database := server.Database(t)
	ahead := `CREATE SCHEMA ahead; GRANT USAGE ON SCHEMA ahead TO PUBLIC;
		CREATE FUNCTION ahead.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT pg_catalog.clock_timestamp() + interval '1 hour' $$;
		ALTER DATABASE ` + database + ` SET search_path = ahead, pg_catalog`
	if err := server.Exec(t.Context(), database, ahead); err != nil {
		t.Fatal(err)
	}
	options := optionsAt(server.Address(), database)
	q := opened(t, options)
	_, _, epoch := load(t, q)
	store(t, q, epoch, 0, "a")
	rows, _, epoch := load(t, q)
	if early := time.Until(rows[0].StoredAt); early < 50*time.Minute {
		t.Errorf("stored at %v, which is not the server's time", rows[0].StoredAt)
	}
	refs := []queue.JobRef{rows[0].JobRef}
	if _, err := q.Apply(t.Context(), epoch, queue.Batch{Accepts: refs, Confirms: refs}); err != nil {
		t.Fatal(err)
	}
	if n, err := q.Compact(t.Context(), epoch, 10); n != 0 || err != nil {
		t.Errorf("%d ids are forgotten before their window is over, error %v", n, err)
	}
	q.SetDeduplicationWindow(0)
	if n, err := q.Compact(t.Context(), epoch, 10); n != 1 || err != nil {
		t.Errorf("%d ids are forgotten without a window, error %v", n, err)
	}
}

// A bound on statements that somebody set for everybody ends no load.
func TestStatementsAreNotBound(t *testing.T) {
	server := postgrestest.Shared(t)
	database := server.Database(t)
	if err := server.Exec(t.Context(), "postgres", "ALTER DATABASE "+database+" SET statement_timeout = '10s'"); err != nil {
		t.Fatal(err)
	}
	if value, err := postgres.Setting(t.Context(), opened(t, optionsAt(server.Address(), database)), "statement_timeout"); err != nil || value != "0" {
		t.Errorf("statement_timeout is %q, error %v", value, err)
	}
}

// A database that came back from a backup counts epochs from an older number and gives ours to somebody else; the writer of before
// is fenced all the same.
func TestRestoredBackup(t *testing.T) {
	server := postgrestest.Shared(t)
	database := server.Database(t)
	before, after := opened(t, optionsAt(server.Address(), database)), opened(t, optionsAt(server.Address(), database))
	_, _, epoch := load(t, before)
	store(t, before, epoch, 0, "a")
	backup := `CREATE TABLE public.backup AS SELECT * FROM workpulling.flows`
	restore := `UPDATE workpulling.flows AS f SET epoch = b.epoch, writer = b.writer, owner = b.owner, last_seq = b.last_seq, stored = b.stored, turn = b.turn
		FROM public.backup AS b WHERE f.flow = b.flow; DELETE FROM workpulling.jobs WHERE seq > 1; DELETE FROM workpulling.ids WHERE seq > 1`
	if err := server.Exec(t.Context(), database, backup); err != nil {
		t.Fatal(err)
	}
	_, _, epoch = load(t, before)
	store(t, before, epoch, 1, "b")
	if err := server.Exec(t.Context(), database, restore); err != nil {
		t.Fatal(err)
	}
	rows, state, again := load(t, after)
	if again != epoch || len(rows) != 1 || state.Cursor != 1 {
		t.Fatalf("epoch %d, want %d again; rows %v, cursor %d", again, epoch, rows, state.Cursor)
	}
	if _, err := before.Apply(t.Context(), epoch, queue.Batch{Cursor: 1, Stores: requests("c")}); !errors.Is(err, queue.ErrFenced) {
		t.Errorf("the writer from before the restore: error %v, want fenced", err)
	}
	store(t, after, again, 1, "d")
}

// Remove leaves nothing of its flow and everything of the others, fences who still writes, and may be repeated.
func TestRemove(t *testing.T) {
	server := postgrestest.Shared(t)
	database := server.Database(t)
	options, other := optionsAt(server.Address(), database), optionsAt(server.Address(), database)
	other.FlowUID = "other"
	if found, err := postgres.Remove(t.Context(), options); found || err != nil {
		t.Fatalf("without tables: found %t, %v", found, err)
	}
	q, kept := opened(t, options), opened(t, other)
	for _, each := range []*postgres.Queue{q, kept} {
		_, _, epoch := load(t, each)
		store(t, each, epoch, 0, "a", "b", "c")
		refs := []queue.JobRef{{MessageID: "a", StoreSeq: 1}}
		if _, err := each.Apply(t.Context(), epoch, queue.Batch{Accepts: refs, Confirms: refs, Workers: []protocol.Incarnation{{PodUID: "p", BootNonce: "b"}}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []bool{true, false} {
		if found, err := postgres.Remove(t.Context(), options); found != want || err != nil {
			t.Fatalf("found %t, want %t, %v", found, want, err)
		}
	}
	_, err := q.Apply(t.Context(), 1, queue.Batch{})
	if !errors.Is(err, queue.ErrConflict) {
		t.Errorf("a writer whose flow is gone: error %v", err)
	}
	for _, table := range []string{"flows", "jobs", "ids", "settlements", "workers"} {
		check := fmt.Sprintf(`DO $$ BEGIN IF (SELECT count(DISTINCT flow) FROM workpulling.%s) <> 1 THEN RAISE 'rows are left'; END IF; END $$`, table)
		if err := server.Exec(t.Context(), database, check); err != nil {
			t.Errorf("%s: %v", table, err)
		}
	}
	if rows, state, _ := load(t, kept); len(rows) != 2 || state.Cursor != 3 {
		t.Errorf("the other flow: rows %v, cursor %d", rows, state.Cursor)
	}
	if rows, state, epoch := load(t, opened(t, options)); len(rows) != 0 || state.Cursor != 0 || epoch != 1 {
		t.Errorf("the flow anew: rows %v, cursor %d, epoch %d", rows, state.Cursor, epoch)
	}
}

// No statement of a job's path scans a table or sorts, whatever the server knows of the tables; and what it reads does not grow
// with them (B-226). The tables grow behind the server's back: it has looked at them before, when only another flow had rows, or never.
func TestPlansDoNotGrow(t *testing.T) {
	for name, known := range map[string]int{"statistics of nothing": 0, "statistics of another flow": 20_000} {
		t.Run(name, func(t *testing.T) { plansDoNotGrow(t, known) })
	}
}

func plansDoNotGrow(t *testing.T, known int) {
	const rows = 50_000
	server := postgrestest.Start(t, "autovacuum=off")
	database := server.Database(t)
	q := opened(t, optionsAt(server.Address(), database))
	fill := func(flow int32, from, to int, after string) {
		t.Helper()
		sql := fmt.Sprintf(`
			INSERT INTO workpulling.jobs SELECT %[1]d, n, 0, NULL, 0, 0, 0, 0, 1, 1, true, convert_to('job-' || n, 'UTF8'), '', '', '', 'x' FROM generate_series(%[2]d, %[3]d) n;
			INSERT INTO workpulling.ids SELECT %[1]d, n, 0, n, 0, 0, 0, 3, true, convert_to('gone-' || n, 'UTF8'), '' FROM generate_series(%[2]d, %[3]d) n;
			INSERT INTO workpulling.settlements SELECT %[1]d, n, n, 1, int8multirange(int8range(n, n + 1)) FROM generate_series(%[2]d, %[3]d) n;`,
			flow, from, to)
		if err := server.Exec(t.Context(), database, sql+after); err != nil {
			t.Fatal(err)
		}
	}
	if known > 0 {
		fill(-1, 1, known, "ANALYZE workpulling.jobs, workpulling.ids, workpulling.settlements")
	}
	whole := map[string]bool{"rows": true, "workers": true} // all rows of the flow, in order where it matters, and by the index
	small, filled := map[string]int{}, 0
	for _, size := range []int{0, 1000, rows} {
		fill(postgres.Key(q), filled+1, size, "")
		filled = size
		for name, statement := range postgres.JobPath(q) {
			plan, err := postgres.Explain(t.Context(), q, statement, false)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			text := strings.Join(plan, "\n")
			for _, word := range []string{"Seq Scan on jobs", "Seq Scan on ids", "Seq Scan on settlements", "Sort", "Hash", "Merge"} {
				if strings.Contains(text, word) {
					t.Errorf("%s with %d rows: %s in the plan\n%s", name, size, word, text)
				}
			}
			if whole[name] {
				continue
			}
			if size == 0 {
				small[name] = buffers(t, q, statement)
			} else if touched := buffers(t, q, statement); touched > small[name]+100 {
				t.Errorf("%s reads %d pages with %d rows, and %d with none\n%s", name, touched, size, small[name], text)
			}
			for _, line := range plan {
				if table, of := strings.CutPrefix(strings.TrimSpace(line), "Index Cond: "); of && table == "(flow = $1)" && !strings.Contains(text, "on flows") {
					t.Errorf("%s with %d rows reads the whole flow:\n%s", name, size, text)
				}
			}
		}
	}
}

// buffers is how many pages a statement touches, those of its triggers and planning not counted.
func buffers(t *testing.T, q *postgres.Queue, s postgres.Statement) int {
	t.Helper()
	plan, err := postgres.Explain(t.Context(), q, s, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range plan { // the first line of buffers is that of the whole
		if _, rest, ok := strings.Cut(line, "Buffers: shared"); ok {
			sum := 0
			for word := range strings.FieldsSeq(rest) {
				if kind, count, ok := strings.Cut(word, "="); ok && (kind == "hit" || kind == "read") {
					n, err := strconv.Atoi(count)
					if err != nil {
						t.Fatal(err)
					}
					sum += n
				}
			}
			return sum
		}
	}
	return 0
}

// A queue that is closed while its calls are under way ends them all, and leaves nothing running.
func TestCloseBesideCalls(t *testing.T) {
	server := postgrestest.Shared(t)
	q := opened(t, optionsAt(server.Address(), server.Database(t)))
	_, _, epoch := load(t, q)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				if _, err := q.Apply(context.Background(), epoch, queue.Batch{}); err != nil {
					return
				}
			}
		})
	}
	<-time.After(20 * time.Millisecond)
	if err := q.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}
