package local_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"syscall"
	"testing"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/local"
)

// hastyQueue writes to the tree after so many rows.
func hastyQueue(t *testing.T, dir string, rows int) *local.Queue {
	t.Helper()
	q, err := local.Open(t.Context(), local.Hasty(local.Options{Dir: dir, FlowUID: "uid-1"}, rows))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	return q
}

// A tree that cannot be written holds nobody up until the journal is full; then it is an error that may be repeated. All that was answered
// is there meanwhile, after a crash as well, and it heals by itself.
func TestTreeThatCannotBeWritten(t *testing.T) {
	for name, failure := range map[string]error{"a failing disk": errors.New("input/output error"), "a full disk": syscall.ENOSPC} {
		t.Run(name, func(t *testing.T) {
			dir, broken := t.TempDir(), true
			q := hastyQueue(t, dir, 3)
			_, _, epoch := load(t, q)
			local.SetTreeGate(q, func() error {
				if broken {
					return failure
				}
				return nil
			})
			want := map[string]string{}
			apply := func(n int64) error {
				batch := queue.Batch{Cursor: n - 1, Stores: []queue.StoreRequest{request(fmt.Sprintf("job-%d", n), fmt.Append(nil, n))}}
				if n > 2 { // one that an earlier layer holds, or the same
					batch.Confirms = []queue.JobRef{{MessageID: fmt.Sprintf("job-%d", n-n%3), StoreSeq: n - n%3}}
				}
				_, err := q.Apply(t.Context(), epoch, batch)
				if err == nil {
					want[fmt.Sprintf("job-%d", n)] = fmt.Sprint(n)
					if n > 2 {
						delete(want, fmt.Sprintf("job-%d", n-n%3))
					}
				}
				return err
			}
			n := int64(1)
			for ; n < 50; n++ {
				if err := apply(n); err != nil {
					if !errors.Is(err, failure) || queue.Terminal(err) {
						t.Fatalf("job %d: error %v, want that of the disk, retriable", n, err)
					}
					break
				}
			}
			if n < 6 || n == 50 {
				t.Fatalf("the queue took %d jobs: not those of two layers", n)
			}
			found, err := reopened(t, read(t, dir))
			if err != nil || !maps.Equal(found, want) {
				t.Errorf("after a crash: %v, error %v, want %v", found, err, want)
			}
			for id := range want {
				if state, ok, err := q.Lookup(t.Context(), id); err != nil || !ok || state.Status != queue.StatusStored {
					t.Errorf("%s: %+v, %t, error %v", id, state, ok, err)
				}
			}
			broken = false
			for last := n + 20; n < last; n++ {
				if err := apply(n); err != nil {
					t.Fatalf("job %d on a disk that works again: %v", n, err)
				}
			}
			if now := contents(t, q, &epoch); !maps.Equal(now, want) {
				t.Errorf("%v, want %v", now, want)
			}
		})
	}
}

// A group that is larger than the journal goes to the tree, behind all that came before.
func TestGroupLargerThanTheJournal(t *testing.T) {
	dir := t.TempDir()
	q := hastyQueue(t, dir, 1000)
	_, _, epoch := load(t, q)
	store(t, q, epoch, 0, "a", "b")
	large := bytes.Repeat([]byte("large"), 100_000)
	batch := queue.Batch{
		Cursor: 2, Stores: []queue.StoreRequest{request("c", large)}, Confirms: []queue.JobRef{{MessageID: "a", StoreSeq: 1}},
	}
	if _, err := q.Apply(t.Context(), epoch, batch); err != nil {
		t.Fatal(err)
	}
	store(t, q, epoch, 3, "d")
	want := map[string]string{"b": "payload of b", "c": string(large), "d": "payload of d"}
	if found, err := reopened(t, read(t, dir)); err != nil || !maps.Equal(found, want) {
		t.Errorf("after a crash: %d jobs, error %v, want %d", len(found), err, len(want))
	}
	if found := contents(t, q, &epoch); !maps.Equal(found, want) {
		t.Errorf("%d jobs, want %d", len(found), len(want))
	}
}

// A group that went to the tree at once, and failed in the last sync, shows there all the same. What comes after it goes on from there:
// nothing is lost under a sequence that is given twice, and its repeat is synced before it is answered.
func TestGroupLargerThanTheJournalThatFailsAtItsEnd(t *testing.T) {
	failure := errors.New("input/output error")
	large := bytes.Repeat([]byte("large"), 100_000)
	for name, loads := range map[string]bool{"it is repeated": false, "the queue is loaded anew": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			q := hastyQueue(t, dir, 1000)
			_, _, epoch := load(t, q)
			store(t, q, epoch, 0, "a", "b")
			batch := queue.Batch{Cursor: 2, Stores: []queue.StoreRequest{request("c", large)}}
			syncs := 0
			local.SetTreeSync(q, func() error {
				if syncs++; syncs == 2 { // the first brings the tree up to date
					return failure
				}
				return nil
			})
			if _, err := q.Apply(t.Context(), epoch, batch); !errors.Is(err, failure) || queue.Terminal(err) {
				t.Fatalf("error %v, want that of the disk, retriable", err)
			}
			if loads {
				_, _, epoch = load(t, q)
			}
			result, err := q.Apply(t.Context(), epoch, batch)
			if err != nil || result.Cursor != 3 || result.Stores[0].StoreSeq != 3 {
				t.Fatalf("the repeat: %+v, error %v, want sequence and cursor 3", result, err)
			}
			if syncs < 3 {
				t.Error("the repeat rests on a commit that was never synced")
			}
			store(t, q, epoch, 3, "d")
			want := map[string]string{"a": "payload of a", "b": "payload of b", "c": string(large), "d": "payload of d"}
			if found, err := reopened(t, read(t, dir)); err != nil || !maps.Equal(found, want) {
				t.Errorf("after a crash: %d jobs, error %v, want %d", len(found), err, len(want))
			}
			if found := contents(t, q, &epoch); !maps.Equal(found, want) {
				t.Errorf("%d jobs, want %d", len(found), len(want))
			}
		})
	}
}

// A group that went to the tree at once, and found no space there, holds up nothing that the journal has room for.
func TestGroupLargerThanTheJournalOnAFullDisk(t *testing.T) {
	q := hastyQueue(t, t.TempDir(), 1000)
	_, _, epoch := load(t, q)
	store(t, q, epoch, 0, "a", "b")
	if err := local.Drain(q); err != nil {
		t.Fatal(err)
	}
	local.SetTreeGate(q, func() error { return syscall.ENOSPC })
	batch := queue.Batch{Cursor: 2, Stores: []queue.StoreRequest{request("c", bytes.Repeat([]byte("large"), 100_000))}}
	if _, err := q.Apply(t.Context(), epoch, batch); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error %v, want that of the disk", err)
	}
	refs := []queue.JobRef{{MessageID: "a", StoreSeq: 1}}
	if _, err := q.Apply(t.Context(), epoch, queue.Batch{Accepts: refs, Confirms: refs}); err != nil {
		t.Errorf("confirming on a full disk: %v", err)
	}
	local.SetTreeGate(q, nil)
	if found := contents(t, q, &epoch); !maps.Equal(found, map[string]string{"b": "payload of b"}) {
		t.Errorf("found %v", found)
	}
}
