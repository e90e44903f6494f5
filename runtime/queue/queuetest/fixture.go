package queuetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

const (
	flow   = "flow-a"
	window = 10 * time.Minute
)

// reporter is what *testing.T and *rapid.T have in common.
type reporter interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
	Context() context.Context
}

// fixture is one flow's queue, loaded, with what the suite remembers of it.
type fixture struct {
	reporter
	t       *testing.T // owner of the place; owner of failures is the reporter
	backend Backend
	place   Place
	clock   *Clock
	q       queue.WorkQueue
	epoch   queue.Epoch
	state   queue.State // of the last load
	cursor  int64
}

func newFixture(t *testing.T, r reporter, b Backend) *fixture {
	f := &fixture{reporter: r, t: t, backend: b, clock: NewClock()}
	f.place = b.New(t, Options{DeduplicationWindow: window, Clock: f.clock.Now})
	f.open()
	f.load()
	return f
}

func (f *fixture) open() {
	f.Helper()
	q, err := f.place.Open(flow)
	if err != nil {
		f.Fatalf("opening: %v", err)
	}
	f.q = q
	f.Cleanup(func() { _ = q.Close() })
}

// reopen is a restart: of the process for a durable queue, of the controller alone for a volatile one.
func (f *fixture) reopen() []queue.Row {
	f.Helper()
	if !f.backend.Volatile {
		if err := f.q.Close(); err != nil {
			f.Fatalf("closing: %v", err)
		}
		f.open()
	}
	return f.load()
}

func (f *fixture) load() []queue.Row {
	f.Helper()
	rows, state, epoch, err := loadAll(f.Context(), f.q)
	if err != nil {
		f.Fatalf("loading: %v", err)
	}
	if epoch <= f.epoch {
		f.Fatalf("epoch %d after %d: it must rise", epoch, f.epoch)
	}
	if state.Cursor != f.cursor {
		f.Fatalf("cursor %d after loading, want %d", state.Cursor, f.cursor)
	}
	if state.Secret == (queue.Secret{}) || f.epoch > 0 && state.Secret != f.state.Secret {
		f.Fatalf("the secret of these data is missing or another than before")
	}
	f.epoch, f.state = epoch, state
	return rows
}

func loadAll(ctx context.Context, q queue.WorkQueue) (rows []queue.Row, state queue.State, epoch queue.Epoch, err error) {
	state, epoch, err = q.Load(ctx, "owner", func(r queue.Row) error {
		rows = append(rows, r)
		return nil
	})
	return rows, state, epoch, err
}

func jobOf(id string) protocol.Job {
	return protocol.Job{
		MessageID: id,
		Headers:   map[string]string{"content-type": "text/plain", "ce-id": id},
		Payload:   []byte("payload of " + id),
	}
}

func digestOf(text string) queue.Digest { return sha256.Sum256([]byte(text)) }

func requestOf(id string) queue.StoreRequest {
	return queue.StoreRequest{Job: jobOf(id), Digest: digestOf(id)}
}

func requestsOf(ids ...string) []queue.StoreRequest {
	requests := make([]queue.StoreRequest, len(ids))
	for i, id := range ids {
		requests[i] = requestOf(id)
	}
	return requests
}

func numbered(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%d", prefix, i+1)
	}
	return ids
}

func ref(id string, seq int64) queue.JobRef { return queue.JobRef{MessageID: id, StoreSeq: seq} }

// apply expects success.
func (f *fixture) apply(b queue.Batch) queue.Result {
	f.Helper()
	if len(b.Stores) > 0 {
		b.Cursor = f.cursor
	}
	result, err := f.q.Apply(f.Context(), f.epoch, b)
	if err != nil {
		f.Fatalf("applying: %v", err)
	}
	f.cursor = result.Cursor
	return result
}

// store stores new ids and returns their refs.
func (f *fixture) store(ids ...string) []queue.JobRef {
	f.Helper()
	refs := make([]queue.JobRef, len(ids))
	for i, r := range f.apply(queue.Batch{Stores: requestsOf(ids...)}).Stores {
		if r.Verdict != protocol.StoredNew {
			f.Fatalf("storing %q: verdict %d, want new", ids[i], r.Verdict)
		}
		refs[i] = ref(ids[i], r.StoreSeq)
	}
	return refs
}

// resubmit stores a known id again and returns the answer.
func (f *fixture) resubmit(id string) queue.StoreResult {
	f.Helper()
	return f.apply(queue.Batch{Stores: requestsOf(id)}).Stores[0]
}

func (f *fixture) accept(refs ...queue.JobRef)  { f.Helper(); f.apply(queue.Batch{Accepts: refs}) }
func (f *fixture) confirm(refs ...queue.JobRef) { f.Helper(); f.apply(queue.Batch{Confirms: refs}) }

func (f *fixture) bury(reason string, refs ...queue.JobRef) {
	f.Helper()
	b := queue.Batch{}
	for _, r := range refs {
		b.DeadLetters = append(b.DeadLetters, queue.DeadLetterRequest{JobRef: r, Attempts: 3, Reason: reason})
	}
	f.apply(b)
}

func (f *fixture) compact(limit int) int {
	f.Helper()
	n, err := f.q.Compact(f.Context(), f.epoch, limit)
	if err != nil {
		f.Fatalf("compacting: %v", err)
	}
	return n
}

func (f *fixture) lookup(id string) (queue.JobState, bool) {
	f.Helper()
	state, ok, err := f.q.Lookup(f.Context(), id)
	if err != nil {
		f.Fatalf("looking up %q: %v", id, err)
	}
	return state, ok
}

// status is the status of an id, and "" for one that is not held.
func (f *fixture) status(id string) string {
	f.Helper()
	state, ok := f.lookup(id)
	if !ok {
		return ""
	}
	return state.Status
}

func (f *fixture) read(seqs ...int64) []protocol.Job {
	f.Helper()
	jobs, err := f.q.ReadJobs(f.Context(), seqs)
	if err != nil {
		f.Fatalf("reading jobs %v: %v", seqs, err)
	}
	return jobs
}

func (f *fixture) letters() []queue.DeadLetter {
	f.Helper()
	letters, err := f.q.ListDeadLetters(f.Context(), 0, 1000)
	if err != nil {
		f.Fatalf("listing dead letters: %v", err)
	}
	return letters
}

func (f *fixture) equal(what string, got, want any) {
	f.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		f.Errorf("%s: (-want +got)\n%s", what, diff)
	}
}

func (f *fixture) fails(what string, err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

// snapshot is all that can be read without an epoch.
type snapshot struct {
	States  map[string]queue.JobState
	Jobs    []protocol.Job
	Letters []queue.DeadLetter
	Audit   []queue.AuditLine
}

func (f *fixture) snapshot(ids ...string) snapshot {
	f.Helper()
	s := snapshot{States: map[string]queue.JobState{}, Letters: f.letters()}
	for _, id := range ids {
		if state, ok := f.lookup(id); ok {
			s.States[id] = state
		}
	}
	seqs := make([]int64, f.cursor+3)
	for i := range seqs {
		seqs[i] = int64(i)
	}
	s.Jobs = f.read(seqs...)
	if a, ok := f.q.(queue.Auditor); ok {
		lines, err := a.ListAudit(f.Context(), 0, 1000)
		if err != nil {
			f.Fatalf("listing audit lines: %v", err)
		}
		s.Audit = lines
	}
	return s
}

// sequences of rows, for comparisons.
func sequences(rows []queue.Row) []int64 {
	var seqs []int64
	for _, r := range rows {
		seqs = append(seqs, r.StoreSeq)
	}
	return seqs
}
