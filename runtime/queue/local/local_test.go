package local_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/flowtest"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
	"github.com/workpulling/workpulling/runtime/queue/local"
	"github.com/workpulling/workpulling/runtime/queue/queuetest"
)

func TestMain(m *testing.M) {
	if runChild() {
		return
	}
	// The engine's scan of a damaged file that only it found out stays behind when the file is refused; see openBolt.
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("go.etcd.io/bbolt.verifyKeyOrder"), goleak.IgnoreTopFunction("go.etcd.io/bbolt.verifyPageReachable"))
}

// backend keeps what it writes in the journal for as long as it can. The journal is a small one, for the suites open a thousand of them.
var backend = queuetest.Backend{New: func(t testing.TB, options queuetest.Options) queuetest.Place {
	return place(t, options, local.SmallJournal)
}}

// hasty writes it to the tree all the time.
var hasty = queuetest.Backend{New: func(t testing.TB, options queuetest.Options) queuetest.Place {
	return place(t, options, func(o local.Options) local.Options { return local.Hasty(o, 2) })
}}

func place(t testing.TB, options queuetest.Options, adjust func(local.Options) local.Options) queuetest.Place {
	base := t.TempDir()
	return queuetest.Place{
		Open: func(flow string) (queue.WorkQueue, error) {
			return local.Open(t.Context(), adjust(local.Options{
				Dir: filepath.Join(base, flow), FlowUID: flow, DeduplicationWindow: options.DeduplicationWindow, Clock: options.Clock,
			}))
		},
		Damage: func(flow string, damage queuetest.Damage) bool { return spoil(t, filepath.Join(base, flow), damage) },
		Hang:   func(q queue.WorkQueue) func() { return local.Hang(q.(*local.Queue)) },
	}
}

func TestContract(t *testing.T) { queuetest.Run(t, backend) }

func TestContractInTheTree(t *testing.T) { queuetest.Run(t, hasty) }

func TestFlow(t *testing.T) { flowtest.Run(t, backend) }

func TestFlowInTheTree(t *testing.T) { flowtest.Run(t, hasty) }

// spoil damages the second of three rows.
func spoil(t testing.TB, dir string, damage queuetest.Damage) bool {
	entry := func(f func(*ledger.Entry)) bool {
		edit(t, dir, func(tx *bolt.Tx) error { return local.SpoilEntry(tx, 2, f) })
		return true
	}
	record := func(f func([]byte) []byte) bool {
		edit(t, dir, func(tx *bolt.Tx) error { return local.SpoilRow(tx, 2, f) })
		return true
	}
	switch damage {
	case queuetest.DuplicateID:
		return entry(func(e *ledger.Entry) { e.MessageID = "d-1" })
	case queuetest.SequenceZero:
		return entry(func(e *ledger.Entry) { e.StoreSeq = 0 })
	case queuetest.SequenceAboveCursor:
		return entry(func(e *ledger.Entry) { e.StoreSeq = 4 })
	case queuetest.EmptyPayload:
		return entry(func(e *ledger.Entry) { e.PayloadBytes = 0 })
	case queuetest.FlippedBit:
		return record(func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	case queuetest.MissingRow:
		return record(func([]byte) []byte { return nil })
	}
	return false
}

// edit changes the file behind the queue's back.
func edit(t testing.TB, dir string, change func(*bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(dir, local.FileName), 0o600, &bolt.Options{Timeout: time.Second, NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(change), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, dir string) *local.Queue {
	t.Helper()
	q, err := local.Open(t.Context(), local.Options{Dir: dir, FlowUID: "uid-1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	return q
}

func load(t testing.TB, q queue.WorkQueue) (rows []queue.Row, state queue.State, epoch queue.Epoch) {
	t.Helper()
	state, epoch, err := q.Load(t.Context(), "owner", func(r queue.Row) error {
		rows = append(rows, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows, state, epoch
}

func request(id string, payload []byte) queue.StoreRequest {
	var r queue.StoreRequest
	r.Job.MessageID, r.Job.Payload, r.Digest = id, payload, queue.Digest{1}
	return r
}

func store(t testing.TB, q queue.WorkQueue, epoch queue.Epoch, cursor int64, ids ...string) {
	t.Helper()
	b := queue.Batch{Cursor: cursor}
	for _, id := range ids {
		b.Stores = append(b.Stores, request(id, []byte("payload of "+id)))
	}
	if _, err := q.Apply(t.Context(), epoch, b); err != nil {
		t.Fatal(err)
	}
}

// filled is a closed queue with three jobs.
func filled(t testing.TB) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "new", "volume")
	q := open(t, dir)
	_, _, epoch := load(t, q)
	store(t, q, epoch, 0, "a", "b")
	if _, err := q.Apply(t.Context(), epoch, queue.Batch{Cursor: 2, Stores: []queue.StoreRequest{request("c", make([]byte, 100<<10))}}); err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestOpenRefuses(t *testing.T) {
	for _, test := range []struct {
		name  string
		flow  string
		spoil func(t *testing.T, path string)
		want  error
	}{
		{"another flow's volume", "uid-2", func(*testing.T, string) {}, local.ErrOtherFlow},
		{"a newer format", "uid-1", func(t *testing.T, path string) {
			edit(t, filepath.Dir(path), func(tx *bolt.Tx) error { return local.SetFormat(tx, local.Format+1) })
		}, queue.ErrUnsupportedFormat},
		{"a file that lacks its last page", "uid-1", func(t *testing.T, path string) { resize(t, path, used(t, path)-1) }, queue.ErrConflict},
		{"a file that was cut off", "uid-1", func(t *testing.T, path string) { resize(t, path, used(t, path)/2) }, queue.ErrConflict},
		{"a file that was cut to a page", "uid-1", func(t *testing.T, path string) { resize(t, path, 4096) }, queue.ErrConflict},
		{"a file that was cut to some bytes", "uid-1", func(t *testing.T, path string) { resize(t, path, 100) }, queue.ErrConflict},
		{"an emptied file", "uid-1", func(t *testing.T, path string) { resize(t, path, 0) }, queue.ErrConflict},
		{"a file of something else", "uid-1", func(t *testing.T, path string) {
			if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
				t.Fatal(err)
			}
		}, queue.ErrConflict},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filled(t)
			path := filepath.Join(dir, local.FileName)
			test.spoil(t, path)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				_, err = local.Open(t.Context(), local.Options{Dir: dir, FlowUID: test.flow})
				if !errors.Is(err, test.want) {
					t.Fatalf("error %v, want %v", err, test.want)
				}
			}
			after, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(before, after) {
				t.Error("the refused file was touched")
			}
		})
	}
}

// used is how much of the file the engine accounts for.
func used(t *testing.T, path string) (size int64) {
	edit(t, filepath.Dir(path), func(tx *bolt.Tx) error { size = tx.Size(); return nil })
	return size
}

func resize(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func TestOpenNeedsDirAndFlow(t *testing.T) {
	for _, options := range []local.Options{{}, {Dir: t.TempDir()}, {FlowUID: "uid"}} {
		if q, err := local.Open(t.Context(), options); err == nil {
			_ = q.Close()
			t.Errorf("%+v was accepted", options)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := local.Open(t.Context(), local.Options{Dir: file, FlowUID: "uid"}); err == nil {
		t.Error("a file in the place of the directory was accepted")
	}
}

func TestOneProcessHoldsTheDirectory(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	second := local.Options{Dir: dir, FlowUID: "uid-1", LockWait: -1}
	if _, err := local.Open(t.Context(), second); !errors.Is(err, local.ErrLocked) {
		t.Fatalf("error %v, want locked", err)
	}
	second.LockWait = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := local.Open(ctx, second); !errors.Is(err, local.ErrLocked) || ctx.Err() == nil {
		t.Fatalf("error %v, want locked at the end of the context", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	q, err := local.Open(t.Context(), second)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Error(err)
	}
}

// A crash while the file was made leaves a file under another name, which is made anew.
func TestOpenAfterCrashedCreation(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, local.FileName+".new"), []byte("half a page"), 0o600); err != nil {
		t.Fatal(err)
	}
	if rows, state, _ := load(t, open(t, dir)); len(rows) != 0 || state.Cursor != 0 || state.Format != local.Format {
		t.Errorf("rows %v, state %+v", rows, state)
	}
}

// Bytes that are damaged where no Load looks are found when they are read, and the rest still is.
func TestDamagedJob(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"flipped": func(b []byte) []byte { b[len(b)-5] ^= 1; return b },
		"cut":     func(b []byte) []byte { return b[:len(b)-1] },
		"empty":   func([]byte) []byte { return []byte{} },
		"gone":    func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filled(t)
			edit(t, dir, func(tx *bolt.Tx) error {
				return errors.Join(local.SpoilPart(tx, 1, 0, spoil), local.SpoilPart(tx, 3, 2, spoil))
			})
			q := open(t, dir)
			load(t, q)
			for _, seq := range []int64{1, 3} {
				if _, err := q.ReadJobs(t.Context(), []int64{2, seq}); !errors.Is(err, queue.ErrConflict) {
					t.Errorf("sequence %d: error %v, want conflict", seq, err)
				}
			}
			jobs, err := q.ReadJobs(t.Context(), []int64{2})
			if err != nil || string(jobs[0].Payload) != "payload of b" {
				t.Errorf("the other job: %+v, error %v", jobs, err)
			}
		})
	}
}

// Data of the first build, which knew neither journal nor secret nor workers, get them all.
func TestDataOfTheFirstBuild(t *testing.T) {
	dir := filled(t)
	edit(t, dir, local.MakeOld)
	if err := os.Remove(filepath.Join(dir, local.JournalName)); err != nil {
		t.Fatal(err)
	}
	q := open(t, dir)
	rows, state, epoch := load(t, q)
	if len(rows) != 3 || state.Secret == (queue.Secret{}) || len(state.Workers) != 0 {
		t.Fatalf("rows %v, state %+v", rows, state)
	}
	workers := []protocol.Incarnation{{PodUID: "pod", BootNonce: "boot"}}
	if _, err := q.Apply(t.Context(), epoch, queue.Batch{Workers: workers}); err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	_, again, _ := load(t, open(t, dir))
	if again.Secret != state.Secret || !slices.Equal(again.Workers, workers) {
		t.Errorf("another secret or other workers after a restart: %+v", again)
	}
}

// A secret or worker that is damaged is a conflict, and ownership stays as it was (B-054).
func TestDamagedIdentity(t *testing.T) {
	for name, spoil := range map[string]func(*bolt.Tx) error{
		"secret cut":     func(tx *bolt.Tx) error { return local.SpoilSecret(tx, func(b []byte) []byte { return b[:8] }) },
		"secret flipped": func(tx *bolt.Tx) error { return local.SpoilSecret(tx, func(b []byte) []byte { b[3] ^= 1; return b }) },
		"worker":         local.AddBrokenWorker,
	} {
		t.Run(name, func(t *testing.T) {
			dir := filled(t)
			edit(t, dir, spoil)
			q := open(t, dir)
			if _, _, err := q.Load(t.Context(), "owner", func(queue.Row) error { return nil }); !errors.Is(err, queue.ErrConflict) {
				t.Errorf("error %v, want conflict", err)
			}
			if _, err := q.Apply(t.Context(), 1, queue.Batch{}); err != nil {
				t.Errorf("the writer before the failed load: %v", err)
			}
		})
	}
}
