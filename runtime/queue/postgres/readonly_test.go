package postgres_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/postgres"
	"github.com/workpulling/workpulling/runtime/queue/postgres/postgrestest"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// refusesWrites says of a queue that was loaded and has jobs that each write is answered as by a full one.
func refusesWrites(t *testing.T, c *crate, options postgres.Options, why string) {
	t.Helper()
	full(t, "a store", c.store(t), why)
	_, err := c.q.Apply(t.Context(), c.epoch, queue.Batch{Confirms: []queue.JobRef{c.ref(1)}})
	full(t, "a confirm", err, why)
	_, _, err = c.q.Load(t.Context(), "other", func(queue.Row) error { return nil })
	full(t, "a load", err, why)
	_, err = c.q.Compact(t.Context(), c.epoch, 10)
	full(t, "a compaction", err, why)
	options.FlowUID = "another flow"
	q, err := postgres.New(t.Context(), options)
	full(t, "another flow", err, why)
	if err == nil {
		_ = q.Close()
	}
}

// A database that takes no writes is a full queue: new jobs are told so, and what is stored stays. It goes on by itself when that is over,
// under the same epoch, also where sessions keep the setting that they began with (B-239).
func TestReadOnlyDatabase(t *testing.T) {
	const why = "read-only transaction"
	for name, way := range map[string]func(database, value string) []string{
		"a setting of the server": func(_, value string) []string {
			return []string{"ALTER SYSTEM SET default_transaction_read_only = " + value, "SELECT pg_reload_conf()"}
		},
		"a setting of the database": func(database, value string) []string {
			set := fmt.Sprintf("ALTER DATABASE %s SET default_transaction_read_only = %s", database, value)
			if value == "off" {
				return []string{"SET default_transaction_read_only = off", set}
			}
			return []string{set, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + database + "'"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := postgrestest.Start(t)
			database := server.Database(t)
			options := optionsAt(server.Address(), database)
			c := &crate{q: opened(t, options), bytes: 10}
			_, _, c.epoch = load(t, c.q)
			c.storeAll(t, 3)
			set := func(value string) {
				t.Helper()
				for _, sql := range way(database, value) {
					if err := server.Exec(t.Context(), "template1", sql); err != nil {
						t.Fatal(err)
					}
				}
			}
			set("on")
			eventually(t, func() error {
				if err := c.store(t); !errors.Is(err, queue.ErrFull) {
					return fmt.Errorf("the server takes writes yet: %w", errors.Join(err, errors.New("no error of a full queue")))
				}
				return nil
			})
			refusesWrites(t, c, options, why)
			if state, found, err := c.q.Lookup(t.Context(), c.id(1)); !found || err != nil || state.Status != queue.StatusStored {
				t.Errorf("a look-up meanwhile: %+v, found %v, error %v", state, found, err)
			}
			if jobs, err := c.q.ReadJobs(t.Context(), []int64{2}); err != nil || jobs[0].MessageID != c.id(2) {
				t.Errorf("a read meanwhile: %+v, error %v", jobs, err)
			}
			set("off")
			eventually(t, func() error { return c.store(t) })
			c.storeAll(t, 3)
			c.verify(t, 1)
		})
	}
}

// A standby takes no writes, and what it would read may be old: it is used once it is promoted, and not before. A queue whose address leads
// there goes on as soon as it leads to the primary again, or the standby is one.
func TestStandby(t *testing.T) {
	server := postgrestest.Start(t)
	database := server.Database(t)
	standby := server.Standby(t)
	proxy := transporttest.NewProxy(t, server.Address())
	options := optionsAt(proxy.Address(), database)
	c := &crate{q: opened(t, options), bytes: 10}
	_, _, c.epoch = load(t, c.q)
	c.storeAll(t, 3)
	lead := func(to string) {
		proxy.Retarget(to)
		proxy.Cut()
	}
	const why = "the server is a standby"
	lead(standby.Address())
	eventually(t, func() error { // connections that were cut
		if _, err := c.q.Owner(t.Context()); !errors.Is(err, queue.ErrFull) {
			return fmt.Errorf("no answer of a standby: %w", errors.Join(err, errors.ErrUnsupported))
		}
		return nil
	})
	refusesWrites(t, c, options, why)
	_, err := c.q.ReadJobs(t.Context(), []int64{1})
	full(t, "a read", err, why)
	lead(server.Address())
	eventually(t, func() error { return c.store(t) })

	following := func() error {
		return standby.Exec(t.Context(), database, fmt.Sprintf(`DO $$ BEGIN
			IF (SELECT count(*) FROM workpulling.jobs) <> %d THEN RAISE 'the standby lags'; END IF; END $$`, c.cursor))
	}
	eventually(t, following)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	lead(standby.Address())
	retriable(t, "a store", c.store(t))
	if err := standby.Exec(t.Context(), "postgres", "SELECT pg_promote()"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return c.store(t) })
	c.storeAll(t, 3)
	c.verify(t, 1)
}
