package local_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/local"
)

// Batches that arrive during a commit share the next one.
func TestGroupCommit(t *testing.T) {
	const batches = 50
	q := open(t, t.TempDir())
	_, _, epoch := load(t, q)
	store(t, q, epoch, 0, numbered(batches)...)

	var commits atomic.Int64
	started, gate := make(chan struct{}, batches), make(chan struct{})
	local.SetGate(q, func() error {
		commits.Add(1)
		started <- struct{}{}
		<-gate
		return nil
	})
	var wg sync.WaitGroup
	confirm := func(seq int64) {
		wg.Go(func() {
			refs := []queue.JobRef{{MessageID: fmt.Sprintf("job-%d", seq), StoreSeq: seq}}
			if _, err := q.Apply(t.Context(), epoch, queue.Batch{Confirms: refs}); err != nil {
				t.Error(err)
			}
		})
	}
	confirm(1)
	<-started
	for seq := range int64(batches - 1) {
		confirm(seq + 2)
	}
	for local.Waiting(q) < batches-1 {
		runtime.Gosched()
	}
	close(gate)
	wg.Wait()
	if n := commits.Load(); n != 2 {
		t.Errorf("%d commits, want the first and one for all others", n)
	}
}

// A batch that was refused because of its neighbour in a commit that failed must not believe the refusal.
func TestRefusalsOfAFailedCommitDoNotCount(t *testing.T) {
	q := open(t, t.TempDir())
	_, _, epoch := load(t, q)
	failure := errors.New("no space left")
	started, gate := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { close(started) })
	local.SetGate(q, func() error { first(); <-gate; return failure })
	apply := func(id string) func() error {
		answer := make(chan error, 1)
		go func() {
			_, err := q.Apply(t.Context(), epoch, queue.Batch{Stores: []queue.StoreRequest{request(id, []byte("x"))}})
			answer <- err
		}()
		return func() error { return <-answer }
	}
	answers := []func() error{apply("first")}
	<-started
	answers = append(answers, apply("second"), apply("third")) // they compete for sequence 1
	for local.Waiting(q) < 2 {
		runtime.Gosched()
	}
	close(gate)
	for _, answer := range answers {
		if err := answer(); !errors.Is(err, failure) || errors.Is(err, queue.ErrConflict) {
			t.Errorf("error %v, want that of the commit", err)
		}
	}
	local.SetGate(q, nil)
	store(t, q, epoch, 0, "fourth")
	if rows, state, _ := load(t, q); len(rows) != 1 || state.Cursor != 1 {
		t.Errorf("rows %v, state %+v", rows, state)
	}
}

// A commit that fails because of one batch is repeated batch by batch.
func TestFailedCommitIsTakenApart(t *testing.T) {
	q := open(t, t.TempDir())
	_, _, epoch := load(t, q)
	store(t, q, epoch, 0, "a", "b", "c")
	started, gate := make(chan struct{}, 1), make(chan struct{})
	var commits atomic.Int64
	local.SetGate(q, func() error {
		switch commits.Add(1) {
		case 1:
			started <- struct{}{}
			<-gate
		case 2:
			return errors.New("no space left")
		}
		return nil
	})
	var wg sync.WaitGroup
	confirm := func(id string, seq int64) {
		wg.Go(func() {
			batch := queue.Batch{Confirms: []queue.JobRef{{MessageID: id, StoreSeq: seq}}}
			if _, err := q.Apply(t.Context(), epoch, batch); err != nil {
				t.Errorf("confirming %s: %v", id, err)
			}
		})
	}
	confirm("a", 1)
	<-started
	confirm("b", 2)
	confirm("c", 3)
	for local.Waiting(q) < 2 {
		runtime.Gosched()
	}
	close(gate)
	wg.Wait()
	if n := commits.Load(); n != 4 {
		t.Errorf("%d commits, want 1, a failed one of 2 and 2 single ones", n)
	}
}

// Close lets the commit that is under way finish and ends what waits behind it.
func TestCloseDuringCommit(t *testing.T) {
	dir := t.TempDir()
	q := open(t, dir)
	_, _, epoch := load(t, q)
	started, gate := make(chan struct{}, 1), make(chan struct{})
	local.SetGate(q, func() error { started <- struct{}{}; <-gate; return nil })
	var wg sync.WaitGroup
	wg.Go(func() { store(t, q, epoch, 0, "a") })
	<-started
	wg.Go(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	close(gate)
	wg.Wait()
	if rows, _, _ := load(t, open(t, dir)); len(rows) != 1 {
		t.Errorf("rows %v, want the one whose commit was under way", rows)
	}
}

// The audit trail keeps the newest lines only.
func TestAuditIsBounded(t *testing.T) {
	q := open(t, t.TempDir())
	_, _, epoch := load(t, q)
	store(t, q, epoch, 0, "a")
	local.FillAudit(t, q, queue.MaxAuditLines)
	for range 2 {
		ref := queue.JobRef{MessageID: "a", StoreSeq: 1}
		if _, err := q.Apply(t.Context(), epoch, queue.Batch{DeadLetters: []queue.DeadLetterRequest{{JobRef: ref}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Redrive(t.Context(), epoch, ref, "ann"); err != nil {
			t.Fatal(err)
		}
	}
	lines, err := q.ListAudit(t.Context(), 0, 2*queue.MaxAuditLines)
	if err != nil {
		t.Fatal(err)
	}
	if first, last := lines[0].Number, lines[len(lines)-1].Number; len(lines) != queue.MaxAuditLines || first != 3 || last != queue.MaxAuditLines+2 {
		t.Errorf("%d lines, %d to %d", len(lines), first, last)
	}
}

// A volume that is too full to forget many ids at once forgets fewer.
func TestCompactOnAFullVolume(t *testing.T) {
	q := open(t, t.TempDir())
	_, _, epoch := load(t, q)
	const jobs = 100
	store(t, q, epoch, 0, numbered(jobs)...)
	var refs []queue.JobRef
	for i, id := range numbered(jobs) {
		refs = append(refs, queue.JobRef{MessageID: id, StoreSeq: int64(i) + 1})
	}
	if _, err := q.Apply(t.Context(), epoch, queue.Batch{Accepts: refs, Confirms: refs}); err != nil {
		t.Fatal(err)
	}
	failures := 2
	failure := fmt.Errorf("writing: %w", syscall.ENOSPC)
	local.SetGate(q, func() error {
		if failures--; failures >= 0 {
			return failure
		}
		return nil
	})
	if removed, err := q.Compact(t.Context(), epoch, 80); removed != 1 || err != nil {
		t.Errorf("%d removed, error %v, want one after two failures", removed, err)
	}
	failures = 3
	if removed, err := q.Compact(t.Context(), epoch, 80); removed != 0 || !errors.Is(err, failure) {
		t.Errorf("%d removed, error %v, want that of the volume", removed, err)
	}
	failures, failure = 1, errors.New("broken")
	if removed, err := q.Compact(t.Context(), epoch, 80); removed != 0 || !errors.Is(err, failure) {
		t.Errorf("%d removed, error %v: another failure has nothing to do with the number", removed, err)
	}
}

func numbered(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("job-%d", i+1)
	}
	return ids
}

// What a commit under way changes is not seen before it is synced; all else is, without waiting.
func TestLookupBesideACommitUnderWay(t *testing.T) {
	q := open(t, t.TempDir())
	_, _, epoch := load(t, q)
	store(t, q, epoch, 0, "a")
	started, gate := make(chan struct{}), make(chan struct{})
	local.SetGate(q, func() error { close(started); <-gate; return nil })
	applied := make(chan error, 1)
	go func() {
		batch := queue.Batch{
			Cursor: 1, Stores: []queue.StoreRequest{request("b", []byte("x"))}, Confirms: []queue.JobRef{{MessageID: "a", StoreSeq: 1}},
		}
		_, err := q.Apply(t.Context(), epoch, batch)
		applied <- err
	}()
	<-started
	if found, ok, err := q.Lookup(t.Context(), "a"); !ok || err != nil || found.Status != queue.StatusStored {
		t.Errorf("during the commit that confirms it: %+v, %t, %v", found, ok, err)
	}
	if _, ok, err := q.Lookup(t.Context(), "b"); ok || err != nil {
		t.Errorf("during the commit that stores it: %t, %v", ok, err)
	}
	close(gate)
	if err := <-applied; err != nil {
		t.Fatal(err)
	}
	for id, status := range map[string]string{"a": queue.StatusConfirmed, "b": queue.StatusStored} {
		if found, ok, err := q.Lookup(t.Context(), id); !ok || err != nil || found.Status != status {
			t.Errorf("%s after the commit: %+v, %t, %v", id, found, ok, err)
		}
	}
}
