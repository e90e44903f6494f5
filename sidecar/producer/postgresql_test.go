package producer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/fencing"
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
