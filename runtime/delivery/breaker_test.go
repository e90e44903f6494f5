package delivery

import (
	"fmt"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// revised is a worker of a revision of a pool.
func (w *world) revised(name, revision string, edit func(*ConsumerConfig)) *testWorker {
	w.revisions[name] = revision
	return w.worker(name, edit)
}

func nackAll(protocol.Delivery) protocol.Outcome { return protocol.Nacked }

func paused(w *world) []RevisionStats { return w.ctl.Stats().Paused }

// A revision whose every job fails gets one probe at a time and burns nobody's attempts, the others go on.
func TestBreakerPausesARevisionWhoseEveryJobFails(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MaxAttempts = 5 })
	bad := w.revised("bad", "r2", nil)
	w.submit(w.producer(100), "", 40)
	for i := range breakerFailures {
		bad.finish(fmt.Sprint(i+1), protocol.Nacked)
		w.advance(10 * time.Millisecond)
	}
	w.equal("paused", paused(w), []RevisionStats{{"pool", "r2", breakerFailures, "nacked"}})
	w.equal("held by the paused revision", w.ctl.Stats().InFlight, 1) // it runs; the others were handed back
	w.equal("free demand", w.ctl.Stats().FreeDemand, 0)
	bad.serve(nackAll)

	w.advance(10 * time.Minute)
	w.equal("dead letters", w.ctl.Stats().DeadLetters, 0)
	if n := len(bad.starts) - breakerFailures; n < 8 || n > 25 {
		t.Fatalf("%d probes in ten minutes", n)
	}

	good := w.revised("good", "r1", nil).serve(confirmAll)
	w.advance(10 * time.Minute)
	st := w.ctl.Stats()
	w.equal("confirmed by the other revision", []any{st.Confirmed, len(good.starts)}, []any{40, 40})
	w.equal("still paused", len(paused(w)), 1)
	w.equal("pauses", st.Pauses, 1)
}

func TestBreakerIsClosedByASuccessfulProbe(t *testing.T) {
	w := newWorld(t, nil)
	broken := true
	bad := w.revised("bad", "r2", nil).serve(func(protocol.Delivery) protocol.Outcome {
		if broken {
			return protocol.Nacked
		}
		return protocol.Confirmed
	})
	w.submit(w.producer(100), "", 40)
	w.advance(5 * time.Second)
	w.equal("paused", len(paused(w)), 1)
	before := len(bad.starts)
	broken = false
	w.advance(2 * probeLast)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 40)
	w.equal("paused", paused(w), []RevisionStats(nil))
	if n := len(bad.starts) - before; n != 40 {
		t.Fatalf("%d starts for 40 jobs", n)
	}
}

// One job that always fails is that job's fault, however often it does.
func TestBreakerNeedsDistinctJobs(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MaxAttempts = 0; c.BackoffMax = time.Second })
	w.revised("a", "r1", nil).serve(nackAll)
	w.submit(w.producer(10), "", breakerJobs-1)
	w.advance(5 * time.Minute)
	w.equal("paused", len(paused(w)), 0)
	if n := w.ctl.Stats().Nacked; n < 100 {
		t.Fatalf("%d failures", n)
	}
}

func TestBreakerCountsRejectionsAndTimeoutsAndForgetsAtASuccess(t *testing.T) {
	for _, outcome := range []protocol.Outcome{protocol.Rejected, protocol.Abandoned, protocol.Nacked} {
		w := newWorld(t, nil)
		n := 0
		w.revised("a", "r1", nil).serve(func(protocol.Delivery) protocol.Outcome {
			if n++; n == breakerFailures {
				return protocol.Confirmed
			}
			return outcome
		})
		p := w.producer(100)
		w.submit(p, "a", 2*breakerFailures-1)
		w.equal(outcome.String()+": paused after a success in between", len(paused(w)), 0)
		w.submit(p, "b", 1)
		w.equal(outcome.String()+": paused", len(paused(w)), 1)
	}
	w := newWorld(t, nil)
	w.revised("a", "r1", nil).serve(func(protocol.Delivery) protocol.Outcome { return protocol.Delayed })
	w.submit(w.producer(100), "", 30)
	w.advance(time.Minute)
	w.equal("delays are no failures", len(paused(w)), 0)
}

// What was under way when the breaker opened costs no attempt.
func TestBreakerExcusesWhatWasUnderWay(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MaxAttempts = 2 })
	a := w.revised("a", "r1", func(c *ConsumerConfig) { c.Concurrency = 20 })
	w.submit(w.producer(100), "", 20)
	for i := range 20 {
		a.finish(fmt.Sprint(i+1), protocol.Nacked)
	}
	w.equal("paused", len(paused(w)), 1)
	attempts := map[int32]int{}
	for _, j := range w.ctl.jobs {
		attempts[j.attempts]++
	}
	w.equal("attempts", attempts, map[int32]int{0: 20 - breakerFailures, 1: breakerFailures})
}

// A probe takes a job that nobody failed: a few hopeless ones must not keep the revision paused.
func TestBreakerProbesWithAFreshJob(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) {
		c.MaxAttempts = 0
		c.BackoffInitial = 10 * time.Millisecond
		c.BackoffMax = 20 * time.Millisecond
	})
	a := w.revised("a", "r1", nil).serve(func(d protocol.Delivery) protocol.Outcome {
		if d.StoreSeq <= breakerJobs {
			return protocol.Nacked
		}
		return protocol.Confirmed
	})
	p := w.producer(100)
	w.submit(p, "hopeless", breakerJobs)
	w.advance(3 * time.Second)
	w.equal("paused", len(paused(w)), 1)
	w.submit(p, "healthy", 1)
	w.advance(probeLast)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
	_ = a
}

// A probe whose worker is lost or hands it back leads to another probe, on whoever has demand.
func TestBreakerProbesOn(t *testing.T) {
	for _, end := range []string{"killed", "silent", "drained", "handed back"} {
		t.Run(end, func(t *testing.T) {
			w := newWorld(t, nil)
			a := w.revised("a", "r1", func(c *ConsumerConfig) { c.Concurrency = 50 })
			w.submit(w.producer(100), "", 30)
			for i := range breakerFailures {
				a.finish(fmt.Sprint(i+1), protocol.Nacked)
			}
			for id := range a.running {
				a.finish(id, protocol.HandedBack)
			}
			w.equal("paused", len(paused(w)), 1)
			w.advance(time.Second)
			w.equal("probes", len(a.running), 1)
			b := w.revised("b", "r1", nil)
			w.advance(time.Second)
			w.equal("one probe at a time", len(b.running), 0)
			switch end {
			case "killed":
				a.kill()
			case "silent":
				a.dead = true
			case "drained":
				for id := range a.running {
					a.finish(id, protocol.Nacked)
				}
				a.step(Cordon{Force: true})
				w.run()
			case "handed back":
				for id := range a.running {
					a.finish(id, protocol.HandedBack)
				}
				a.step(Cordon{})
				w.run()
			}
			w.advance(time.Minute)
			w.equal("probes of the other worker", len(b.running), 1)
			b.serve(confirmAll)
			w.advance(10 * time.Minute)
			w.equal("paused", len(paused(w)), 0)
			w.equal("confirmed", w.ctl.Stats().Confirmed, 30)
		})
	}
}

// Every map keyed by a peer has an owner for removal.
func TestRevisionsAreForgotten(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 3 * idleRevisions {
		w.revised(fmt.Sprint("w", i), fmt.Sprint("r", i), nil).kill()
	}
	w.equal("remembered", len(w.ctl.revisions), idleRevisions)
	w.now += 2 * idleRevisionFor
	w.revised("last", "last", nil).kill()
	w.equal("remembered", len(w.ctl.revisions), 1)
}

// A reload neither opens nor closes a breaker.
func TestBreakerSurvivesAReload(t *testing.T) {
	w := newWorld(t, nil)
	w.revised("a", "r1", nil).serve(nackAll)
	w.submit(w.producer(100), "", 30)
	w.advance(500 * time.Millisecond)
	w.equal("paused", len(paused(w)), 1)
	w.ctl.reload(w.now)
	for _, a := range w.ctl.todo.Actions {
		w.do(a)
	}
	w.run()
	w.advance(time.Second)
	w.equal("paused", len(paused(w)), 1)
	w.equal("loads", w.loads, 2)
	w.advance(30 * time.Minute)
	if n := w.ctl.Stats().Nacked; n > 90 {
		t.Fatalf("%d failures in half an hour of pause", n)
	}
}
