package queuetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// testModel drives the store and the model with the same random steps, restarts included, and compares every answer and, after
// each step, everything that can be read. Rapid prints the seed of a failure (-rapid.seed) after shrinking it.
func testModel(t *testing.T, b Backend) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFixture(t, rt, b)
		w := &walk{fixture: f, rt: rt, model: model{jobs: map[string]modelJob{}}}
		rt.Repeat(map[string]func(*rapid.T){
			"apply":       w.apply,
			"apply again": w.apply,
			"apply more":  w.apply,
			"stale":       w.stale,
			"redrive":     w.redrive,
			"drop":        w.drop,
			"compact":     w.compact,
			"advance":     w.advance,
			"restart":     w.restart,
			"fail a load": w.failLoad,
			"":            w.check,
		})
	})
}

type walk struct {
	*fixture
	rt    *rapid.T
	model model
}

var (
	walkIDs     = numbered("m", 9)
	walkWorkers = incarnations(5)
)

func drawRef(rt *rapid.T, m *model) queue.JobRef {
	id := rapid.SampledFrom(walkIDs).Draw(rt, "id")
	if j, ok := m.jobs[id]; ok && rapid.IntRange(0, 19).Draw(rt, "pair") > 0 {
		return ref(id, j.seq)
	}
	return ref(id, rapid.Int64Range(-1, m.cursor+2).Draw(rt, "sequence"))
}

// drawRefs mostly avoids the pairs that make a batch illegal, so that most batches succeed.
func drawRefs(rt *rapid.T, m *model, what string) []queue.JobRef {
	refs := make([]queue.JobRef, rapid.SampledFrom([]int{0, 0, 1, 1, 2, 3}).Draw(rt, what))
	for i := range refs {
		refs[i] = drawRef(rt, m)
		if len(m.jobs) > 0 && rapid.IntRange(0, 9).Draw(rt, "legal") > 0 {
			refs[i] = rapid.SampledFrom(held(m)).Draw(rt, "held")
		}
	}
	return refs
}

func held(m *model) []queue.JobRef {
	var refs []queue.JobRef
	for _, id := range walkIDs {
		if j, ok := m.jobs[id]; ok {
			refs = append(refs, ref(id, j.seq))
		}
	}
	return refs
}

func (w *walk) batch(rt *rapid.T) queue.Batch {
	b := queue.Batch{Cursor: w.model.cursor}
	if rapid.IntRange(0, 9).Draw(rt, "cursor") == 0 {
		b.Cursor += rapid.Int64Range(-2, 2).Draw(rt, "off by")
	}
	for range rapid.IntRange(0, 3).Draw(rt, "stores") {
		request := requestOf(rapid.SampledFrom(walkIDs).Draw(rt, "id"))
		if rapid.IntRange(0, 9).Draw(rt, "other bytes") == 0 {
			request.Digest = digestOf("other")
		}
		b.Stores = append(b.Stores, request)
	}
	b.Accepts = drawRefs(rt, &w.model, "accepts")
	for _, r := range drawRefs(rt, &w.model, "attempts") {
		b.Attempts = append(b.Attempts, queue.AttemptRecord{
			JobRef: r, Attempts: rapid.IntRange(0, 5).Draw(rt, "n"), Uncounted: rapid.IntRange(0, 5).Draw(rt, "uncounted"),
			LastReason: rapid.SampledFrom([]string{"", "r1", "r2"}).Draw(rt, "reason"),
		})
	}
	for _, r := range drawRefs(rt, &w.model, "dead letters") {
		b.DeadLetters = append(b.DeadLetters, queue.DeadLetterRequest{
			JobRef: r, Attempts: rapid.IntRange(0, 5).Draw(rt, "n"), Reason: rapid.SampledFrom([]string{"", "r3"}).Draw(rt, "reason"),
		})
	}
	b.Confirms = drawRefs(rt, &w.model, "confirms")
	if rapid.IntRange(0, 9).Draw(rt, "workers") == 0 {
		b.Workers = append([]protocol.Incarnation{}, rapid.SliceOfNDistinct(rapid.SampledFrom(walkWorkers), 0, 3, rapid.ID).Draw(rt, "which")...)
	}
	return b
}

func (w *walk) apply(rt *rapid.T) {
	b := w.batch(rt)
	want, wantErr := w.model.apply(b, w.clock.Now())
	got, err := w.q.Apply(w.Context(), w.epoch, b)
	if !errors.Is(err, wantErr) {
		rt.Fatalf("applying %+v: error %v, want %v", b, err, wantErr)
	}
	w.same(rt, "result", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
}

func (w *walk) stale(rt *rapid.T) {
	epoch := queue.Epoch(rapid.Uint64Range(0, uint64(w.epoch)+2).Filter(func(e uint64) bool { return e != uint64(w.epoch) }).Draw(rt, "epoch"))
	if _, err := w.q.Apply(w.Context(), epoch, w.batch(rt)); !errors.Is(err, queue.ErrFenced) {
		rt.Fatalf("epoch %d of %d: error %v, want fenced", epoch, w.epoch, err)
	}
}

func (w *walk) redrive(rt *rapid.T) {
	r := drawRef(rt, &w.model)
	wantErr := w.model.redrive(r)
	row, err := w.q.Redrive(w.Context(), w.epoch, r, "test")
	if !errors.Is(err, wantErr) {
		rt.Fatalf("redriving %v: error %v, want %v", r, err, wantErr)
	}
	if err == nil && (row.JobRef != r || row.Attempts != 0 || row.Uncounted != 0) {
		rt.Fatalf("redriving %v: row %+v", r, row)
	}
}

func (w *walk) drop(rt *rapid.T) {
	r := drawRef(rt, &w.model)
	wantErr := w.model.drop(r, w.clock.Now())
	if err := w.q.Drop(w.Context(), w.epoch, r, "test"); !errors.Is(err, wantErr) {
		rt.Fatalf("dropping %v: error %v, want %v", r, err, wantErr)
	}
}

// compact takes over from the store which of several equally old ids went, and checks that no younger one did.
func (w *walk) compact(rt *rapid.T) {
	limit := rapid.IntRange(0, 4).Draw(rt, "limit")
	n, err := w.q.Compact(w.Context(), w.epoch, limit)
	expired := w.model.expired(w.clock.Now())
	if err != nil || n != min(limit, len(expired)) {
		rt.Fatalf("compacting %d of %d expired: removed %d, error %v", limit, len(expired), n, err)
	}
	if n == 0 {
		return
	}
	youngest, gone := w.model.jobs[expired[n-1]].ages, 0
	for _, id := range expired {
		if w.status(id) != "" {
			continue
		}
		if gone++; w.model.jobs[id].ages.After(youngest) {
			rt.Fatalf("compacted %q before older ones", id)
		}
		delete(w.model.jobs, id)
	}
	if gone != n {
		rt.Fatalf("compacting claims %d, but %d are gone", n, gone)
	}
}

func (w *walk) advance(rt *rapid.T) {
	w.clock.Advance(rapid.SampledFrom([]time.Duration{1, time.Second, window / 2, window}).Draw(rt, "by"))
}

func (w *walk) restart(rt *rapid.T) {
	w.cursor = w.model.cursor
	var got []queue.JobRef
	for _, row := range w.reopen() {
		got = append(got, row.JobRef)
		j := w.model.jobs[row.MessageID]
		if row.Attempts != j.attempts || row.Uncounted != j.uncounted || row.Accepted != j.accepted || row.PayloadBytes != len(j.payload) {
			rt.Fatalf("row %+v, want %+v", row, j)
		}
	}
	w.same(rt, "rows", fmt.Sprint(got), fmt.Sprint(w.model.rows()))
	w.same(rt, "workers", fmt.Sprint(sorted(w.state.Workers)), fmt.Sprint(sorted(w.model.workers)))
}

func (w *walk) failLoad(rt *rapid.T) {
	rows := w.model.rows()
	if len(rows) == 0 {
		return
	}
	at := rapid.SampledFrom(rows).Draw(rt, "at")
	_, _, err := w.q.Load(w.Context(), "other", func(r queue.Row) error {
		if r.JobRef == at {
			return errVisit
		}
		return nil
	})
	if !errors.Is(err, errVisit) {
		rt.Fatalf("failing load: error %v", err)
	}
}

// check compares everything that can be read without an epoch.
func (w *walk) check(rt *rapid.T) {
	dead := 0
	for _, id := range walkIDs {
		j, ok := w.model.jobs[id]
		state, found := w.lookup(id)
		want := queue.JobState{}
		if ok {
			want = j.state()
		}
		if found != ok || state != want {
			rt.Fatalf("looking up %q: %+v %v, want %+v %v", id, state, found, want, ok)
		}
		if j.status == queue.StatusDeadLettered {
			dead++
		}
	}
	for seq, job := range w.jobsBySequence() {
		j, ok := w.model.jobs[job.MessageID]
		if job.MessageID != "" && (!ok || j.seq != seq || j.payload != string(job.Payload)) {
			rt.Fatalf("reading sequence %d: %q, want %+v", seq, job.MessageID, j)
		}
		if job.MessageID == "" && w.unsettledAt(seq) {
			rt.Fatalf("reading sequence %d: nothing there", seq)
		}
	}
	letters := w.letters()
	if len(letters) != dead {
		rt.Fatalf("%d dead letters, want %d", len(letters), dead)
	}
	for i, l := range letters {
		if i > 0 && letters[i-1].StoreSeq >= l.StoreSeq {
			rt.Fatalf("dead letters are not ascending")
		}
		j := w.model.jobs[l.MessageID]
		want := queue.DeadLetter{
			JobRef: ref(l.MessageID, j.seq), PayloadBytes: len(j.payload), Attempts: j.attempts, Reason: j.reason, Since: j.deadSince,
		}
		if l != want {
			rt.Fatalf("dead letter %+v, want %+v", l, want)
		}
	}
}

func (w *walk) jobsBySequence() map[int64]protocol.Job {
	seqs := make([]int64, w.model.cursor+1)
	for i := range seqs {
		seqs[i] = int64(i + 1)
	}
	jobs := map[int64]protocol.Job{}
	for i, job := range w.read(seqs...) {
		jobs[seqs[i]] = job
	}
	return jobs
}

func (w *walk) unsettledAt(seq int64) bool {
	for _, j := range w.model.jobs {
		if j.seq == seq {
			return !j.settled()
		}
	}
	return false
}

func (w *walk) same(rt *rapid.T, what, got, want string) {
	if got != want {
		rt.Fatalf("%s: got %s, want %s", what, got, want)
	}
}
