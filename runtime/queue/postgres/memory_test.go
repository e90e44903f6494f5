package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/postgres"
	"github.com/workpulling/workpulling/runtime/queue/postgres/postgrestest"
)

func refTo(seq int64, id string) queue.JobRef { return queue.JobRef{MessageID: id, StoreSeq: seq} }

func apply(t testing.TB, q queue.WorkQueue, epoch queue.Epoch, batch queue.Batch) queue.Result {
	t.Helper()
	result, err := q.Apply(t.Context(), epoch, batch)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func lookup(t testing.TB, q queue.WorkQueue, id string) queue.JobState {
	t.Helper()
	state, found, err := q.Lookup(t.Context(), id)
	if err != nil || !found {
		t.Fatalf("%s: found %v, error %v", id, found, err)
	}
	return state
}

// The usual life of jobs rests on what the process remembers, from the first transaction after a load.
func TestTheUsualLifeNeedsNoLook(t *testing.T) {
	server := postgrestest.Shared(t)
	q := opened(t, optionsAt(server.Address(), server.Database(t)))
	_, _, epoch := load(t, q)
	store(t, q, epoch, 0, "a", "b")
	store(t, q, epoch, 2, "c")
	a, b := refTo(1, "a"), refTo(2, "b")
	apply(t, q, epoch, queue.Batch{Accepts: []queue.JobRef{a}, Attempts: []queue.AttemptRecord{{JobRef: b, Attempts: 1}}})
	apply(t, q, epoch, queue.Batch{Confirms: []queue.JobRef{a, b}})
	apply(t, q, epoch, queue.Batch{Accepts: []queue.JobRef{b}})
	if n := postgres.Remembered(q); n != 5 {
		t.Errorf("%d of 5 transactions rested on what was remembered", n)
	}
	for id, want := range map[string]queue.JobState{
		"a": {StoreSeq: 1, Status: queue.StatusConfirmed, Accepted: true, Digest: queue.Digest{1}},
		"b": {StoreSeq: 2, Status: queue.StatusConfirmed, Accepted: true, Digest: queue.Digest{1}, Attempts: 1},
		"c": {StoreSeq: 3, Status: queue.StatusStored, Digest: queue.Digest{1}},
	} {
		if diff := cmp.Diff(want, lookup(t, q, id)); diff != "" {
			t.Errorf("%s: %s", id, diff)
		}
	}
}

// What another process did since is seen: its jobs, its settlements, and above all its load.
func TestMemoryIsNoAuthority(t *testing.T) {
	server := postgrestest.Shared(t)
	database := server.Database(t)
	q, other := opened(t, optionsAt(server.Address(), database)), opened(t, optionsAt(server.Address(), database))
	_, _, epoch := load(t, q)
	store(t, q, epoch, 0, "a", "b")
	store(t, other, epoch, 2, "c") // under the same epoch, as the contract lets a test do
	if result := apply(t, q, epoch, queue.Batch{Cursor: 2, Stores: requests("c")}); result.Stores[0].Verdict != protocol.AlreadyStored || result.Cursor != 3 {
		t.Errorf("a job of the other: %+v", result)
	}
	a, b := refTo(1, "a"), refTo(2, "b")
	apply(t, other, epoch, queue.Batch{Accepts: []queue.JobRef{a}, Confirms: []queue.JobRef{a}})
	apply(t, q, epoch, queue.Batch{Attempts: []queue.AttemptRecord{{JobRef: a, Attempts: 7}}})
	if state := lookup(t, q, "a"); state.Status != queue.StatusConfirmed || state.Attempts != 0 {
		t.Errorf("attempts of a job that the other settled: %+v", state)
	}
	load(t, other)
	before := postgres.Remembered(q)
	for range 2 {
		if _, err := q.Apply(t.Context(), epoch, queue.Batch{Confirms: []queue.JobRef{b}}); !errors.Is(err, queue.ErrFenced) {
			t.Errorf("a confirm after the load of another: %v, want fenced", err)
		}
	}
	if postgres.Remembered(q) != before {
		t.Error("a fenced writer went by what it remembers")
	}
	if state := lookup(t, q, "b"); state.Status != queue.StatusStored {
		t.Errorf("%+v", state)
	}
}

// An id that the process does not remember is found by the attempt to store it, and nothing of that attempt stays.
func TestForgottenIDsAreFound(t *testing.T) {
	server := postgrestest.Shared(t)
	q := opened(t, optionsAt(server.Address(), server.Database(t)))
	_, _, epoch := load(t, q)
	store(t, q, epoch, 0, "a")
	a := refTo(1, "a")
	apply(t, q, epoch, queue.Batch{Accepts: []queue.JobRef{a}, Confirms: []queue.JobRef{a}})
	result := apply(t, q, epoch, queue.Batch{Cursor: 1, Stores: requests("b", "a", "c")})
	want := []queue.StoreResult{{StoreSeq: 2, Verdict: protocol.StoredNew}, {StoreSeq: 1, Verdict: protocol.AlreadyConfirmed}, {StoreSeq: 3, Verdict: protocol.StoredNew}}
	if diff := cmp.Diff(want, result.Stores); diff != "" {
		t.Error(diff)
	}
	rows, state, _ := load(t, q)
	if len(rows) != 2 || state.Cursor != 3 {
		t.Errorf("rows %v, cursor %d", rows, state.Cursor)
	}
}

// More gaps between accepted jobs than the flow's row has room for: the accept of each is durable all the same, and so it is where they close.
func TestManyGapsBetweenAccepts(t *testing.T) {
	server := postgrestest.Shared(t)
	database := server.Database(t)
	q := opened(t, optionsAt(server.Address(), database))
	_, _, epoch := load(t, q)
	const jobs = 4 * postgres.MostAccepted
	var ids []string
	for i := range jobs {
		ids = append(ids, fmt.Sprintf("job-%d", i+1))
	}
	store(t, q, epoch, 0, ids...)
	check := func(accepted func(seq int64) bool) {
		t.Helper()
		for _, each := range []*postgres.Queue{q, opened(t, optionsAt(server.Address(), database))} {
			var rows []queue.Row
			rows, _, epoch = load(t, each)
			for _, row := range rows {
				if row.Accepted != accepted(row.StoreSeq) {
					t.Errorf("sequence %d: accepted %v", row.StoreSeq, row.Accepted)
				}
			}
		}
		_, _, epoch = load(t, q)
		orphans, err := q.ListOrphans(t.Context(), time.Now().Add(time.Hour), 0, jobs)
		for _, orphan := range orphans {
			if accepted(orphan.StoreSeq) {
				t.Errorf("sequence %d is an orphan", orphan.StoreSeq)
			}
		}
		if open := slices.Collect(func(yield func(int64) bool) {
			for seq := int64(1); seq <= jobs; seq++ {
				if !accepted(seq) && !yield(seq) {
					return
				}
			}
		}); err != nil || len(open) != len(orphans) {
			t.Errorf("%d orphans, want %d; error %v", len(orphans), len(open), err)
		}
	}
	var odd, even []queue.JobRef
	for i, id := range ids {
		if ref := refTo(int64(i+1), id); i%2 == 0 {
			odd = append(odd, ref)
		} else {
			even = append(even, ref)
		}
	}
	apply(t, q, epoch, queue.Batch{Accepts: odd[:len(odd)/2]})
	apply(t, q, epoch, queue.Batch{Accepts: odd[len(odd)/2:]})
	check(func(seq int64) bool { return seq%2 == 1 })
	apply(t, q, epoch, queue.Batch{Accepts: even[1:]})
	check(func(seq int64) bool { return seq != 2 })
	apply(t, q, epoch, queue.Batch{Confirms: append(odd, even...)})
	check(func(seq int64) bool { return seq != 2 })
	apply(t, q, epoch, queue.Batch{Accepts: even[:1]})
	check(func(int64) bool { return true })
}

// Compact takes the oldest first, also a part of what one transaction settled, whether or not the tombstones bear the start of their window.
func TestForgettingInParts(t *testing.T) {
	server := postgrestest.Shared(t)
	now := time.Unix(1_000_000, 0)
	options := optionsAt(server.Address(), server.Database(t))
	options.Clock = func() time.Time { return now }
	q := opened(t, options)
	_, _, epoch := load(t, q)
	ids := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	store(t, q, epoch, 0, ids...)
	var refs []queue.JobRef
	for i, id := range ids {
		refs = append(refs, refTo(int64(i+1), id))
	}
	apply(t, q, epoch, queue.Batch{Accepts: refs, Confirms: refs[4:7]})
	now = now.Add(time.Minute)
	apply(t, q, epoch, queue.Batch{Attempts: []queue.AttemptRecord{{JobRef: refs[7], Attempts: 1}}, Confirms: refs[7:]})
	now = now.Add(time.Minute)
	apply(t, q, epoch, queue.Batch{Confirms: refs[:4]})
	left := func() (left []string) {
		for _, id := range ids {
			_, found, err := q.Lookup(context.Background(), id)
			if err != nil {
				t.Fatal(err)
			}
			if found {
				left = append(left, id)
			}
		}
		return left
	}
	compact := func(limit, want int, ids ...string) {
		t.Helper()
		if n, err := q.Compact(t.Context(), epoch, limit); n != want || err != nil {
			t.Errorf("%d are forgotten, want %d; error %v", n, want, err)
		}
		if diff := cmp.Diff(ids, left()); diff != "" {
			t.Error(diff)
		}
	}
	compact(10, 0, ids...)
	now = now.Add(58 * time.Minute)
	compact(2, 2, "a", "b", "c", "d", "g", "h")
	compact(10, 1, "a", "b", "c", "d", "h")
	now = now.Add(time.Hour)
	compact(3, 3, "c", "d")
	compact(0, 0, "c", "d")
	compact(3, 2)
	if result := apply(t, q, epoch, queue.Batch{Cursor: 8, Stores: requests("a")}); result.Stores[0].Verdict != protocol.StoredNew {
		t.Errorf("a forgotten id: %+v", result)
	}
}
