package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/postgres"
	"github.com/workpulling/workpulling/runtime/queue/postgres/postgrestest"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

// The command deletes the jobs of the flow that it is given and of no other, and says when there is no such flow.
func TestRemoveQueue(t *testing.T) {
	server := postgrestest.Shared(t)
	dsn := server.URL(server.Database(t))
	root := t.TempDir()
	file := filepath.Join(root, runtimeconfig.QueueDir, "dsn")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(dsn+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, uid := range []string{"gone", "kept"} {
		storeOne(t, dsn, uid)
	}
	remove := func(args ...string) (string, error) {
		var out strings.Builder
		c := command()
		c.SetOut(&out)
		c.SetArgs(append([]string{"remove-queue"}, args...))
		err := c.ExecuteContext(t.Context())
		return out.String(), err
	}
	if out, err := remove("--root", root, "gone"); err != nil || out != "removed\n" {
		t.Fatalf("%q, %v", out, err)
	}
	if got := stored(t, dsn, "gone"); got != 0 {
		t.Errorf("%d jobs are left", got)
	}
	if got := stored(t, dsn, "kept"); got != 1 {
		t.Errorf("another flow has %d jobs, want 1", got)
	}
	if _, err := remove("--connection-file", file, "misspelt"); err == nil || !strings.Contains(err.Error(), "nothing of a flow") {
		t.Errorf("a UID that is not there: %v", err)
	}
	if _, err := remove("--root", t.TempDir(), "kept"); err == nil {
		t.Error("no connection string, and no error")
	}
}

func openQueue(t *testing.T, dsn, uid string) (*postgres.Queue, []queue.Row, queue.Epoch) {
	t.Helper()
	q, err := postgres.New(t.Context(), postgres.Options{ConnString: dsn, FlowUID: uid, DeduplicationWindow: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	var rows []queue.Row
	_, epoch, err := q.Load(t.Context(), "owner", func(r queue.Row) error {
		rows = append(rows, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return q, rows, epoch
}

func storeOne(t *testing.T, dsn, uid string) {
	t.Helper()
	q, _, epoch := openQueue(t, dsn, uid)
	job := protocol.Job{MessageID: "a", Payload: []byte("x")}
	if _, err := q.Apply(t.Context(), epoch, queue.Batch{Stores: []queue.StoreRequest{{Job: job}}}); err != nil {
		t.Fatal(err)
	}
}

func stored(t *testing.T, dsn, uid string) int {
	t.Helper()
	_, rows, _ := openQueue(t, dsn, uid)
	return len(rows)
}
