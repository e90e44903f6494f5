package producer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/postgres"
	"github.com/workpulling/workpulling/runtime/queue/postgres/postgrestest"
)

// connectAll gives every member of a crew its own way to a real database, through the file of a Secret.
func (c *crew) connectAll(dsn string) (files []string) {
	c.t.Helper()
	for _, p := range c.members {
		p.options.OpenQueue, p.options.QueueDir = nil, c.t.TempDir()
		p.document.QueueSecret, p.document.QueueKey = "orders-db", "url"
		files = append(files, filepath.Join(p.options.QueueDir, "url"))
		write(c.t, files[len(files)-1], dsn)
	}
	return files
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// worker is the member that says that it works on the queue.
func (c *crew) worker(except int) int {
	c.t.Helper()
	found := -1
	c.members[0].until("a member has the queue", func() bool {
		for i, p := range c.members {
			if _, text := p.get("http://" + p.options.MetricsAddress + "/metrics"); i != except && strings.Contains(text, `workpulling_flow_phase{phase="Running"} 1`) {
				found = i
				return true
			}
		}
		return false
	})
	return found
}

// Two producers on a real database: jobs survive a hand-over, and nothing runs twice that was confirmed.
func TestProducersShareAPostgreSQLDatabase(t *testing.T) {
	server := postgrestest.Start(t)
	c := newCrew(t, 2)
	c.connectAll(server.URL(server.Database(t)))
	for _, p := range c.members {
		p.start()
	}
	active := c.worker(-1)
	for i := range 10 {
		c.stored(c.another(active), fmt.Sprint(i), "")
	}
	began := time.Now()
	if err := c.members[active].stop(); err != nil {
		t.Fatal(err)
	}
	next := c.worker(active)
	t.Logf("handed over and running %s after the stop began", time.Since(began).Round(time.Millisecond))
	for i := range 10 {
		if body := c.stored(c.members[next], fmt.Sprint(i), ""); !strings.Contains(body, `"new":false`) {
			t.Errorf("job %d: %s", i, body)
		}
	}
	c.members[next].workAs("w")
	if body := c.stored(c.members[next], "last", "?wait=confirmed"); !strings.Contains(body, "confirmed") {
		t.Error(body)
	}
	c.members[next].until("it reports its epoch", func() bool { return c.members[next].operator.stats().GetEpoch() == 2 })
}

// A Secret that appears late, and one that changes, are read without a restart.
func TestTheConnectionStringIsReadAnew(t *testing.T) {
	server := postgrestest.Start(t)
	database := server.Database(t)
	c := newCrew(t, 1)
	file := c.connectAll("postgres://nobody:wrong@127.0.0.1:1/none")[0]
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	p := c.members[0]
	p.options.Lease = &leases{record: fencing.LeaseRecord{Version: "0"}}
	go func() {
		p.until("the missing Secret is reported", func() bool {
			return p.operator.stats().GetQueueCode() == runtimeconfig.QueueConnectionMissing
		})
		_ = os.WriteFile(file, []byte("postgres://nobody:wrong@127.0.0.1:1/none"), 0o600)
		p.until("the wrong address is reported, without its password", func() bool {
			s := p.operator.stats()
			return s.GetQueueCode() == "" && !s.GetQueueAvailable() && s.GetQueueMessage() != "" && !strings.Contains(s.GetQueueMessage(), "wrong@")
		})
		_ = os.WriteFile(file, []byte(server.URL(database)), 0o600)
	}()
	p.start()
	c.worker(-1)
	c.stored(p, "kept", "")
}

// startAlone starts the only producer of a flow, with a worker. file holds its connection string.
func startAlone(t *testing.T, dsn string) (c *crew, p *pod, file string) {
	t.Helper()
	c = newCrew(t, 1)
	file = c.connectAll(dsn)[0]
	p = c.members[0]
	p.start()
	c.worker(-1)
	return c, p, file
}

// A changed connection that does not work is told of, and costs nothing while the one before works.
func TestAConnectionStringThatDoesNotWorkIsTold(t *testing.T) {
	server := postgrestest.Start(t)
	dsn := server.URL(server.Database(t))
	c, p, file := startAlone(t, dsn)
	write(t, file, strings.Replace(dsn, postgrestest.Password, "wrong", 1))
	p.until("the refusal is reported, and the queue is available", func() bool {
		s := p.operator.stats()
		return s.GetQueueAvailable() && strings.Contains(s.GetQueueMessage(), "the one before is still in use") && strings.Contains(s.GetQueueMessage(), "password authentication failed")
	})
	c.stored(p, "kept", "")
	write(t, file, dsn)
	p.until("nothing is told any more", func() bool { return p.operator.stats().GetQueueMessage() == "" })
	if epoch := p.operator.stats().GetEpoch(); epoch != 1 {
		t.Errorf("epoch %d, want 1: nobody had to load", epoch)
	}
}

// A certificate beside the connection string is a part of the connection.
func TestEveryKeyOfTheSecretIsReadAnew(t *testing.T) {
	server := postgrestest.Start(t)
	c, p, file := startAlone(t, server.URL(server.Database(t)))
	sessions := func() (pids string) {
		conn, err := pgx.Connect(t.Context(), server.SuperURL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		const sql = `SELECT coalesce(string_agg(pid::text, ' '), '') FROM pg_stat_activity WHERE usename = $1`
		if err := conn.QueryRow(t.Context(), sql, postgrestest.User).Scan(&pids); err != nil {
			t.Fatal(err)
		}
		return pids
	}
	before := strings.Fields(sessions())
	write(t, filepath.Join(filepath.Dir(file), "ca.crt"), "another")
	p.until("every connection is a new one", func() bool {
		now := strings.Fields(sessions())
		return len(now) > 0 && !slices.ContainsFunc(now, func(pid string) bool { return slices.Contains(before, pid) })
	})
	c.stored(p, "kept", "")
}

// A Secret that comes to name another database does not carry an owner into it: he loads what is there.
func TestAnotherDatabaseIsLoadedFirst(t *testing.T) {
	server := postgrestest.Start(t)
	c, p, file := startAlone(t, server.URL(server.Database(t)))
	c.stored(p, "in the first", "")

	second := server.URL(server.Database(t))
	other, err := postgres.New(t.Context(), postgres.Options{ConnString: second, FlowUID: p.document.FlowUID})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, epoch, err := other.Load(t.Context(), "somebody", func(queue.Row) error { return nil }); err != nil || epoch != 1 {
		t.Fatalf("epoch %d, error %v", epoch, err)
	}
	write(t, file, second)
	tries := 0
	p.until("a job is in the second", func() bool {
		tries++
		c.stored(p, fmt.Sprint("try ", tries), "")
		return p.operator.stats().GetEpoch() == 2
	})
}
