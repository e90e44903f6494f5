package delivery

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

var dispatches = []Dispatch{RoundRobin, LeastOutstanding}

func dispatching(d Dispatch) func(*ControllerConfig) {
	return func(c *ControllerConfig) { c.Dispatch = d }
}

// G-053: turns in the order of registration. LeastOutstanding takes the same turns among workers that hold equally much.
func TestG053_TurnsInTheOrderOfRegistration(t *testing.T) {
	for _, d := range dispatches {
		t.Run(string(d), func(t *testing.T) {
			w := newWorld(t, dispatching(d))
			var got []string
			for i := range 4 {
				name := fmt.Sprint("w", i)
				w.worker(name, nil).serve(func(protocol.Delivery) protocol.Outcome {
					got = append(got, name)
					return protocol.Confirmed
				})
			}
			p := w.producer(1)
			for range 8 {
				p.submit(newJob(w.rnd.ID()))
				w.advance(10 * time.Millisecond)
			}
			w.equal("turns", strings.Join(got, " "), "w0 w1 w2 w3 w0 w1 w2 w3")
		})
	}
}

// B-108: a slow worker gets no more than its share by demand, and with LeastOutstanding no more than it works off.
func TestB108_SlowWorkerDelaysOnlyWhatItHolds(t *testing.T) {
	for _, d := range dispatches {
		t.Run(string(d), func(t *testing.T) {
			w := newWorld(t, dispatching(d))
			slow := w.worker("slow", func(c *ConsumerConfig) { c.Window = 10 })
			var fast []*testWorker
			for i := range 3 {
				fast = append(fast, w.worker(fmt.Sprint("fast", i), func(c *ConsumerConfig) { c.Window = 10 }).serve(confirmAll))
			}
			p := w.producer(40)
			for range 25 {
				w.submit(p, w.rnd.ID()+"-", 40)
				w.advance(20 * time.Millisecond)
			}
			w.advance(time.Second)
			st := w.ctl.Stats()
			if st.Confirmed < 1000-10 {
				t.Fatalf("%d confirmed beside a slow worker with a window of 10", st.Confirmed)
			}
			if n := st.Bindings[0].InFlight; d == LeastOutstanding && n > 4 {
				t.Fatalf("the slow worker holds %d jobs", n)
			}
			for _, tw := range fast {
				if n := len(tw.starts); n < 320 {
					t.Errorf("%s got %d", tw.name, n)
				}
			}
			_ = slow
		})
	}
}

func TestB220_EqualWorkersGetEqualShares(t *testing.T) {
	for _, d := range dispatches {
		t.Run(string(d), func(t *testing.T) {
			w := newWorld(t, dispatching(d))
			var workers []*testWorker
			for i := range 3 {
				workers = append(workers, w.worker(fmt.Sprint("w", i), nil).serve(confirmAll))
			}
			p := w.producer(30)
			for range 10 {
				w.submit(p, w.rnd.ID()+"-", 30)
			}
			for _, tw := range workers {
				if n := len(tw.starts); n < 99 || n > 101 {
					t.Fatalf("%s got %d of 300", tw.name, n)
				}
			}
		})
	}
}

func TestB224_NothingForDrainingOrAbsentWorkers(t *testing.T) {
	for _, d := range dispatches {
		t.Run(string(d), func(t *testing.T) {
			w := newWorld(t, dispatching(d))
			a, b, c := w.worker("a", nil), w.worker("b", nil), w.worker("c", nil)
			a.step(Cordon{})
			b.disconnect()
			w.run()
			w.submit(w.producer(10), "", 5)
			w.equal("shares", []int{len(a.starts), len(b.starts), c.cons.Status(w.now).Unsettled}, []int{0, 0, 5})
		})
	}
}

// G-057: who joins, or comes back, queues at the end. G-X14: a leaver takes nobody's turn away.
func TestG057_NewcomersQueueAtTheEnd(t *testing.T) {
	for _, d := range dispatches {
		t.Run(string(d), func(t *testing.T) {
			w := newWorld(t, dispatching(d))
			var names []string
			workers := map[string]*testWorker{}
			for i := range 5 {
				name := fmt.Sprint("w", i)
				workers[name] = w.worker(name, nil).serve(func(protocol.Delivery) protocol.Outcome {
					names = append(names, name)
					return protocol.Confirmed
				})
			}
			p := w.producer(1)
			give := func() {
				p.submit(newJob(w.rnd.ID()))
				w.advance(10 * time.Millisecond)
			}
			give()
			give()
			give()
			workers["w1"].kill()
			give()
			again := w.incarnation("w1", "again", nil)
			again.serve(func(protocol.Delivery) protocol.Outcome { names = append(names, "w1"); return protocol.Confirmed })
			for range 6 {
				give()
			}
			w.equal("turns", strings.Join(names, " "), want(d))
		})
	}
}

// want differs in one place: the ring goes on to the newcomer at its end, the loads to whoever was served longest ago.
func want(d Dispatch) string {
	if d == LeastOutstanding {
		return "w0 w1 w2 w3 w4 w0 w2 w3 w1 w4"
	}
	return "w0 w1 w2 w3 w4 w1 w0 w2 w3 w4"
}

func TestLeastOutstandingTakesTheIdlest(t *testing.T) {
	w := newWorld(t, dispatching(LeastOutstanding))
	a, b, c := w.worker("a", nil), w.worker("b", nil), w.worker("c", nil)
	p := w.producer(20)
	w.submit(p, "", 9) // three each
	held := func() []int {
		return []int{a.cons.Status(w.now).Unsettled, b.cons.Status(w.now).Unsettled, c.cons.Status(w.now).Unsettled}
	}
	w.equal("held", held(), []int{3, 3, 3})
	b.serve(confirmAll)
	b.auto = nil
	w.equal("held", held(), []int{3, 0, 3})
	w.submit(p, "next", 3)
	w.equal("held", held(), []int{3, 3, 3})
	b.serve(confirmAll)
	c.serve(confirmAll)
	// A worker that failed a job does not get it again while another one has demand, whatever they hold.
	a.serve(func(d protocol.Delivery) protocol.Outcome {
		if d.Attempt == 1 {
			return protocol.Nacked
		}
		return protocol.Confirmed
	})
	w.advance(5 * time.Second)
	for _, d := range a.starts {
		if d.Attempt > 1 {
			t.Errorf("%s came back to the worker that failed it", d.Job.MessageID)
		}
	}
}

// B-264: the rule changes live, no binding is dropped.
func TestDispatchIsReconfiguredLive(t *testing.T) {
	w := newWorld(t, dispatching(RoundRobin))
	a, b, c := w.worker("a", nil), w.worker("b", nil), w.worker("c", nil)
	p := w.producer(50)
	w.submit(p, "", 6)
	b.serve(confirmAll)
	b.auto = nil
	refs := []protocol.BindingRef{a.ref(), b.ref(), c.ref()}
	set := func(d Dispatch) {
		cfg := DefaultControllerConfig()
		cfg.Dispatch = d
		w.step(Reconfigure{cfg})
		w.run()
	}
	set(LeastOutstanding)
	w.submit(p, "least", 2)
	w.equal("held", []int{a.cons.Status(w.now).Unsettled, b.cons.Status(w.now).Unsettled, c.cons.Status(w.now).Unsettled}, []int{2, 2, 2})
	set("nonsense") // is the default
	w.submit(p, "turns", 3)
	w.equal("held", []int{a.cons.Status(w.now).Unsettled, b.cons.Status(w.now).Unsettled, c.cons.Status(w.now).Unsettled}, []int{3, 3, 3})
	w.equal("bindings", []protocol.BindingRef{a.ref(), b.ref(), c.ref()}, refs)
	w.equal("heap", w.ctl.roster.load.len(), 0)
}

// BenchmarkDispatch is the cost of one job among so many workers, from the backlog to its confirm.
func BenchmarkDispatch(b *testing.B) {
	for _, d := range dispatches {
		for _, workers := range []int{1, 50, 500, 5000} {
			b.Run(fmt.Sprint(d, "/workers=", workers), func(b *testing.B) { benchDispatch(b, d, workers) })
		}
	}
}

func benchDispatch(b *testing.B, d Dispatch, count int) {
	b.Helper()
	r := newRoster()
	r.setDispatch(d)
	workers := make([]*binding, count)
	for i := range workers {
		workers[i] = &binding{pod: &pod{number: uint64(i + 1)}}
		r.add(workers[i])
		r.setFree(workers[i], 50)
	}
	b.ReportAllocs()
	for i := range b.N {
		got := r.next(0)
		got.bound++
		r.setFree(got, got.free-1)
		done := workers[(i*7919)%len(workers)]
		if done.bound > 0 {
			done.bound--
			r.setFree(done, done.free+1)
		}
	}
}
