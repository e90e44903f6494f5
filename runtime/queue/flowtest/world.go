package flowtest

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/queuetest"
)

const (
	flow       = "flow-a"
	window     = 10 * time.Minute
	maxPayload = 64 << 10
	// patience is more than workers and a reloading Controller need to find each other.
	patience = time.Minute
)

// world is one flow: its queue, the processes that come and go, and what lies outside of all of them: the app's source and the
// effects of the handlers.
type world struct {
	*testing.T
	backend queuetest.Backend
	place   queuetest.Place
	clock   *queuetest.Clock
	random  random

	now       delivery.Now
	todo      []func()
	last      delivery.ConnID
	producers []*producer
	workers   []*worker
	hold      bool // new workers hold their handlers

	source   []string        // what the app has to submit
	marked   map[string]bool // what it has marked as handed over
	finished map[string]int  // how often a handler finished
}

type random struct{ n int }

func (r *random) ID() string       { r.n++; return "id-" + strconv.Itoa(r.n) }
func (r *random) Float64() float64 { return 0.5 }

func newWorld(t *testing.T, b queuetest.Backend) *world {
	w := &world{T: t, backend: b, clock: queuetest.NewClock(), marked: map[string]bool{}, finished: map[string]int{}}
	w.place = b.New(t, queuetest.Options{DeduplicationWindow: window, Clock: w.clock.Now})
	return w
}

// anew is a world of its own for a subtest.
func (w *world) anew(t *testing.T) *world { return newWorld(t, w.backend) }

// beside is the queue as a second process has it: opened once more where several can, and the same one otherwise.
func (w *world) beside(q queue.WorkQueue) queue.WorkQueue {
	w.Helper()
	if _, shared := q.(queue.Shared); !shared {
		return q
	}
	return w.open()
}

// open opens the queue once.
func (w *world) open() queue.WorkQueue {
	w.Helper()
	q, err := w.place.Open(flow)
	if err != nil {
		w.Fatalf("opening: %v", err)
	}
	w.Cleanup(func() { _ = q.Close() })
	return q
}

// restart is the next process after a crash: over the reopened queue, or, where that forgets, over the one that is there.
func (w *world) restart(p *producer) *producer {
	w.Helper()
	p.crash()
	w.todo = nil
	q := p.q
	if !w.backend.Volatile {
		if err := q.Close(); err != nil {
			w.Fatalf("closing: %v", err)
		}
		q = w.open()
	}
	next := w.produce(p.name+"'", q)
	for _, wk := range w.workers {
		if !wk.dead {
			wk.connect(next)
		}
	}
	w.run()
	return next
}

func (w *world) later(f func()) { w.todo = append(w.todo, f) }

// run delivers everything that is on its way, without letting time pass.
func (w *world) run() {
	w.Helper()
	for n := 0; len(w.todo) > 0; n++ {
		if n > 1_000_000 {
			w.Fatal("the machines never come to rest")
		}
		f := w.todo[0]
		w.todo = w.todo[1:]
		f()
	}
}

// advance lets time pass, stopping at every deadline of every machine.
func (w *world) advance(d time.Duration) {
	w.Helper()
	for end := w.now + d; ; {
		next := end
		for _, p := range w.producers {
			if at, ok := p.ctl.NextDeadline(); ok && !p.dead {
				next = min(next, at)
			}
		}
		for _, wk := range w.workers {
			if at, ok := wk.cons.NextDeadline(); ok && !wk.dead {
				next = min(next, at)
			}
		}
		w.now = max(w.now, next)
		for _, p := range w.producers {
			p.step(delivery.Tick{})
		}
		for _, wk := range w.workers {
			wk.step(delivery.ConsumerTick{})
		}
		w.run()
		if w.now >= end {
			return
		}
	}
}

func (w *world) toWorker(from *producer, a delivery.ToWorker) {
	for _, wk := range w.workers {
		if wk.conn == a.Conn && wk.to == from {
			wk.step(delivery.FromController(a))
		}
	}
}

func (w *world) closeWorker(conn delivery.ConnID) {
	for _, wk := range w.workers {
		if to := wk.to; wk.conn == conn && to != nil && !wk.dead {
			wk.connect(to)
		}
	}
}

// jobOf is the job of an id: its payload and its trace context can be told apart from any other's. An id that begins with a size in
// brackets has a payload of that many bytes.
func jobOf(id string) protocol.Job {
	payload := "payload of " + id
	if rest, ok := strings.CutPrefix(id, "["); ok {
		text, _, _ := strings.Cut(rest, "]")
		n, _ := strconv.Atoi(text)
		payload = strings.Repeat("x", n)
	}
	return protocol.Job{
		MessageID: id, Payload: []byte(payload),
		Headers: map[string]string{protocol.HeaderTraceParent: "00-" + id, protocol.HeaderContentType: "text/plain"},
	}
}

func digestOf(j protocol.Job) queue.Digest { return sha256.Sum256(j.Payload) }

func numbered(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint(i+1))
	}
	return ids
}

func (w *world) equal(what string, got, want any) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// confirmed demands that the queue knows every id as confirmed, under sequences without a hole, and that a handler finished it.
func (w *world) confirmed(p *producer, ids ...string) {
	w.Helper()
	seqs := map[int64]string{}
	for _, id := range ids {
		state, ok, err := p.q.Lookup(w.Context(), id)
		if err != nil || !ok || state.Status != queue.StatusConfirmed {
			w.Errorf("%s is %+v, %v, %v", id, state, ok, err)
		}
		if other, taken := seqs[state.StoreSeq]; taken {
			w.Errorf("I-6: %s and %s share sequence %d", id, other, state.StoreSeq)
		}
		seqs[state.StoreSeq] = id
		if w.finished[id] == 0 {
			w.Errorf("I-8: %s is confirmed and no handler finished it", id)
		}
	}
	if cursor := p.ctl.Stats().Cursor; cursor != int64(len(ids)) {
		w.Errorf("I-6: cursor %d after %d jobs", cursor, len(ids))
	}
}
