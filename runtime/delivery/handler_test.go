package delivery

import (
	"fmt"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

func TestB180_NackIsRedeliveredAfterABackOff(t *testing.T) {
	w, a, _ := withJobs(t, 1, nil)
	var waits []Now
	for attempt := 1; attempt <= 4; attempt++ {
		w.equal("attempt", a.starts[attempt-1].Attempt, attempt)
		failedAt := w.now
		a.finish("1", protocol.Nacked)
		w.equal("delayed", w.ctl.Stats().DelayedJobs, 1)
		for len(a.starts) == attempt {
			w.advance(50 * time.Millisecond)
		}
		waits = append(waits, (w.now - failedAt).Round(100*time.Millisecond))
	}
	// Half of the wait is jitter, and the test's randomness is its middle: 1, 2, 4, 8 s times three quarters.
	w.equal("waits", waits, []Now{800 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second, 6 * time.Second})
	w.equal("nacked", w.ctl.Stats().Nacked, 4)
	w.boot(nil)
	w.equal("durable attempts", w.job("1").attempts, 4)
}

func TestNackedJobGoesToAnotherWorker(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.worker("a", nil), w.worker("b", nil)
	w.submit(w.producer(1), "", 1)
	w.equal("first", a.order, []string{"1"})
	w.submit(w.producer(1), "second", 1) // takes b's turn: round-robin alone would serve a again
	a.finish("1", protocol.Nacked)
	w.advance(time.Second)
	w.equal("then", b.cons.Status(w.now).Unsettled, 2)
	w.equal("a", a.cons.Status(w.now).Unsettled, 0)
}

func TestB182_SlowHandlerRunsOnce(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", func(c *ConsumerConfig) { c.HandlerTimeout = 0 })
	w.submit(w.producer(1), "", 1)
	w.advance(time.Hour)
	w.equal("started", len(a.starts), 1)
	a.finish("1", protocol.Confirmed)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
}

func TestB183_HandlerPastItsTimeoutIsAbandoned(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", func(c *ConsumerConfig) { c.HandlerTimeout = 10 * time.Second })
	w.submit(w.producer(10), "", 2)
	w.advance(11 * time.Second)
	w.equal("canceled", a.cancels, []RunID{1})
	w.equal("attempts", w.job("1").attempts, 1)
	w.equal("the slot stays taken", a.order, []string{"1"})
	w.advance(time.Minute) // it comes back to its only worker, which must not run it beside itself
	w.equal("started", len(a.starts), 1)
	b := w.worker("b", nil).serve(confirmAll)
	w.advance(30 * time.Second)
	w.equal("runs elsewhere", b.starts[len(b.starts)-1].Job.MessageID, "1")
	w.equal("attempt", b.starts[len(b.starts)-1].Attempt, 2)
	confirmed := w.ctl.Stats().Confirmed
	a.finish("1", protocol.Confirmed)
	w.equal("started by the free slot", a.order, []string{"1", "2"})
	w.advance(time.Second)
	w.equal("the late answer", a.cons.Status(w.now).Dropped["late-answer"], 1)
	w.equal("confirmed by it", w.ctl.Stats().Confirmed-confirmed, 0)
	a.finish("2", protocol.Confirmed)
	w.equal("all done", w.ctl.Stats().Confirmed, 2)
}

func TestB184_ExhaustedJobBecomesADeadLetter(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MaxAttempts = 3 })
	a := w.worker("a", nil).serve(func(d protocol.Delivery) protocol.Outcome {
		if d.Job.MessageID == "1" {
			return protocol.Nacked
		}
		return protocol.Confirmed
	})
	w.submit(w.producer(10), "", 2)
	w.advance(time.Minute)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
	w.equal("dead letters", w.ctl.Stats().DeadLetters, 1)
	letters, err := w.queue.ListDeadLetters(t.Context(), 0, 10)
	w.equal("error", err, nil)
	w.equal("letter", []any{letters[0].MessageID, letters[0].Attempts, letters[0].Reason}, []any{"1", 3, "nacked"})
	last := w.settled[len(w.settled)-1]
	w.equal("settled", last, JobSettled{Ref: queue.JobRef{MessageID: "1", StoreSeq: 1}, DeadLettered: true, Reason: "nacked"})

	row, err := w.queue.Redrive(t.Context(), w.ctl.epoch, last.Ref, "test")
	w.equal("redrive", err, nil)
	a.auto = confirmAll
	w.step(Redriven{w.ctl.epoch, row})
	w.run()
	w.equal("confirmed after the redrive", w.ctl.Stats().Confirmed, 2)
	w.equal("dead letters after it", w.ctl.Stats().DeadLetters, 0)
	w.equal("attempt", a.starts[len(a.starts)-1].Attempt, 1)
}

// Until its write is acknowledged a dead letter is held, so that nobody decides about it who could be undone by a repeat; and what
// was decided under an earlier epoch says nothing new.
func TestDecisionsAboutADeadLetter(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MaxAttempts, c.QueueAttempts = 1, 1 })
	a := w.worker("a", nil)
	w.submit(w.producer(1), "", 1)
	w.lostReply = func(b queue.Batch) error {
		if len(b.DeadLetters) > 0 {
			return errFlaky
		}
		return nil
	}
	a.finish("1", protocol.Nacked)
	_, held := w.ctl.Holds(queue.JobRef{MessageID: "1"})
	w.equal("held before the answer", held, true)
	w.lostReply = nil
	w.advance(time.Minute)
	_, held = w.ctl.Holds(queue.JobRef{MessageID: "1"})
	w.equal("held after the answer", held, false)
	w.equal("dead letters", w.ctl.Stats().DeadLetters, 1)

	row, err := w.queue.Redrive(t.Context(), w.ctl.epoch, queue.JobRef{MessageID: "1", StoreSeq: 1}, "test")
	w.equal("redrive", err, nil)
	w.step(Redriven{w.ctl.epoch - 1, row})
	w.step(Dropped{w.ctl.epoch - 1, row.JobRef})
	_, held = w.ctl.Holds(queue.JobRef{MessageID: "1"})
	w.equal("held by an old word", held, false)
	w.equal("dead letters after old words", w.ctl.Stats().DeadLetters, 1)
	w.step(Redriven{w.ctl.epoch, row})
	w.run()
	a.finish("1", protocol.Confirmed)
	w.run()
	w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
	w.equal("dead letters at the end", w.ctl.Stats().DeadLetters, 0)
}

// buried makes job 1 a dead letter that waits for a person.
func buried(t *testing.T) (*world, *testWorker, queue.JobRef) {
	w := newWorld(t, func(c *ControllerConfig) { c.MaxAttempts, c.MemoryBytes = 1, 1 })
	a := w.worker("a", nil)
	w.submit(w.producer(1), "", 1)
	a.finish("1", protocol.Nacked)
	w.run()
	w.equal("dead letters", w.ctl.Stats().DeadLetters, 1)
	return w, a, queue.JobRef{MessageID: "1", StoreSeq: 1}
}

func (w *world) redrive(ref queue.JobRef) Redriven {
	w.t.Helper()
	row, err := w.queue.Redrive(w.t.Context(), w.ctl.epoch, ref, "test")
	w.equal("redrive", err, nil)
	return Redriven{w.ctl.epoch, row}
}

// A source may submit a job again after a person has put it back and before the controller was told: the job is taken in once, by the
// person's word, and what that one does to the count of dead letters happens once.
func TestResubmissionBeforeTheWordOfARedrive(t *testing.T) {
	w, a, ref := buried(t)
	word := w.redrive(ref)
	p := w.producer(1)
	p.submit(newJob("1"))
	w.equal("verdict", p.stored[0].Verdict, protocol.AlreadyStored)
	_, held := w.ctl.Holds(queue.JobRef{MessageID: "1"})
	w.equal("held before the word", held, false)
	w.equal("runs", len(a.starts), 1)

	w.step(word)
	w.run()
	w.equal("attempt", a.starts[1].Attempt, 1)
	w.equal("dead letters", w.ctl.Stats().DeadLetters, 0)
	a.finish("1", protocol.Confirmed)
	w.run()
	w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
}

// A claim that completes the dead letter may overtake the word that a person has put it back: then there is nothing to run, and nothing
// is wrong with the queue.
func TestClaimOvertakesTheWordOfARedrive(t *testing.T) {
	w, a, ref := buried(t)
	word := w.redrive(ref)
	_, err := w.queue.Apply(t.Context(), w.ctl.epoch, queue.Batch{Confirms: []queue.JobRef{ref}})
	w.equal("confirm", err, nil)
	w.step(ClaimsResolved{Epoch: w.ctl.epoch, PodUID: a.inc.PodUID, Ended: []queue.JobRef{ref}, Confirmed: []queue.JobRef{ref}})
	w.step(word)
	w.run()
	w.equal("failures", w.failed, []Failed(nil))
	_, held := w.ctl.Holds(queue.JobRef{MessageID: "1"})
	w.equal("held", held, false)
	w.equal("runs", len(a.starts), 1)
	w.equal("dead letters", w.ctl.Stats().DeadLetters, 0)
}

// Two people may decide about one dead letter, and the second decision take effect after the job has died again, whose answer is lost:
// that proves the answer.
func TestRedriveProvesTheWriteOfADeadLetter(t *testing.T) {
	w, a, ref := buried(t)
	w.step(w.redrive(ref))
	w.run()
	w.lostReply = func(b queue.Batch) error {
		if len(b.DeadLetters) > 0 {
			return errFlaky
		}
		return nil
	}
	a.finish("1", protocol.Nacked)
	w.run()
	w.step(w.redrive(ref))
	w.lostReply = nil
	w.advance(time.Second)
	w.equal("runs", len(a.starts), 3)
	w.equal("dead letters", w.ctl.Stats().DeadLetters, 0)
	a.finish("1", protocol.Confirmed)
	w.advance(time.Minute)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
	w.equal("dead letters at the end", w.ctl.Stats().DeadLetters, 0)
}

func TestMaxAttemptsZeroNeverGivesUp(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MaxAttempts = 0; c.BackoffMax = 2 * time.Second })
	w.worker("a", nil).serve(func(protocol.Delivery) protocol.Outcome { return protocol.Nacked })
	w.submit(w.producer(1), "", 1)
	w.advance(10 * time.Minute)
	if n := w.job("1").attempts; n < 200 {
		t.Fatalf("%d attempts", n)
	}
	w.equal("dead letters", w.ctl.Stats().DeadLetters, 0)
}

func TestB186_RejectGoesStraightToTheDeadLetters(t *testing.T) {
	w, a, _ := withJobs(t, 1, nil)
	a.finish("1", protocol.Rejected)
	w.equal("dead letters", w.ctl.Stats().DeadLetters, 1)
	w.equal("held", w.holds(), 0)
}

func TestDelayedCostsNoAttempt(t *testing.T) {
	w, a, _ := withJobs(t, 1, nil)
	a.step(HandlerDone{Run: a.running["1"].Run, Outcome: protocol.Delayed, RetryAfter: 7 * time.Second})
	delete(a.running, "1")
	w.run()
	w.advance(6900 * time.Millisecond)
	w.equal("started", len(a.starts), 1)
	w.advance(200 * time.Millisecond)
	w.equal("started", len(a.starts), 2)
	w.equal("attempt", a.starts[1].Attempt, 1)
}

func TestUnreachableAppIsNoAttemptAndNoHotLoop(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil).serve(func(protocol.Delivery) protocol.Outcome { return protocol.HandedBack })
	w.submit(w.producer(1), "", 1)
	w.advance(time.Minute)
	if n := len(a.starts); n < 30 || n > 100 {
		t.Fatalf("%d dials in a minute", n)
	}
	w.equal("attempts", w.job("1").attempts, 0)
	w.equal("uncounted", int(w.job("1").uncounted) > 20, true)
}

func TestB088_AppRestartFailsWhatItRan(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", func(c *ConsumerConfig) { c.Concurrency = 2 })
	w.submit(w.producer(10), "", 4)
	ref := a.ref()
	clear(a.running)
	a.step(AppRestarted{})
	w.advance(5 * time.Millisecond)
	w.equal("binding", a.ref(), ref)
	w.equal("works on", a.order, []string{"1", "2", "3", "4"})
	w.equal("attempts", []int32{w.job("1").attempts, w.job("2").attempts}, []int32{1, 1})
	a.serve(confirmAll)
	w.advance(5 * time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 4)
	w.equal("attempt", a.starts[4].Attempt, 2)
}

func TestB188_ConcurrencySettlesOutOfOrder(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", func(c *ConsumerConfig) { c.Window, c.Concurrency = 6, 3 })
	w.submit(w.producer(100), "", 30)
	w.equal("parallel", len(a.running), 3)
	// The first one stays; the others overtake it for as long as there are jobs.
	a.serve(func(d protocol.Delivery) protocol.Outcome {
		if d.StoreSeq == 1 {
			return 0
		}
		return protocol.Confirmed
	})
	w.advance(5 * time.Second)
	w.equal("confirmed around it", w.ctl.Stats().Confirmed, 29)
	b := w.ctl.roster.ring[0]
	w.equal("watermark", b.watermark(), 0)
	w.equal("current", b.current, 30)
	a.finish("1", protocol.Confirmed)
	w.advance(time.Second)
	w.equal("watermark", b.watermark(), 30)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 30)
	w.equal("started", len(a.starts), 30)
}

func TestAboveSetIsBounded(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", func(c *ConsumerConfig) { c.Window, c.Concurrency, c.HandlerTimeout = 50, 3, 0 })
	a.serve(func(d protocol.Delivery) protocol.Outcome {
		if d.StoreSeq == 1 {
			return 0
		}
		return protocol.Confirmed
	})
	p := w.producer(1000)
	for i := range 12 {
		w.submit(p, fmt.Sprint("round", i, "-"), 1000)
		w.advance(50 * time.Millisecond)
	}
	w.advance(20 * time.Second)
	b := w.ctl.roster.ring[0]
	if b.slots.len() > protocol.MaxFlowControlWindow || a.cons.sub.entries.len() > protocol.MaxFlowControlWindow {
		t.Fatalf("%d slots, %d entries", b.slots.len(), a.cons.sub.entries.len())
	}
	a.finish(a.order[0], protocol.Confirmed)
	w.advance(time.Minute)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 12_000)
}

// A claim may end a job that a person has put back before the controller was told, while another worker still runs it and asks for it
// again: the job cannot be read, and nothing is broken by that.
func TestAPutBackJobThatEndedMayStillRun(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MaxAttempts = 1 })
	p, a := w.producer(10), w.worker("a", nil)
	p.submit(newJob("1"))
	w.advance(100 * time.Millisecond) // its start is reported
	claim := claimOf(a.starts[0], protocol.ClaimRunning)
	a.disconnect()
	w.advance(11 * time.Second)
	w.equal("dead letters", w.ctl.Stats().DeadLetters, 1)
	ref := queue.JobRef{MessageID: "1", StoreSeq: 1}
	word := w.redrive(ref)
	_, err := w.queue.Apply(t.Context(), w.ctl.epoch, queue.Batch{Confirms: []queue.JobRef{ref}})
	w.equal("confirm", err, nil)
	w.step(ClaimsResolved{Epoch: w.ctl.epoch, Confirmed: []queue.JobRef{ref}, Ended: []queue.JobRef{ref}})

	w.holdReads = true
	w.step(word)
	w.fromWorker = func(_ *testWorker, m protocol.FromWorker) bool { return false }
	a.connect()
	a.forge(claim)
	w.equal("adopted", w.ctl.Stats().Adopted, 1)
	b := w.ctl.pods["a"].binding
	a.inject(protocol.Request{BindingRef: protocol.BindingRef{BindingID: b.id, Secret: b.secret}, RequestUpTo: 50, ViaTimeout: true})
	w.holdReads = false
	w.release()
	w.equal("failed", len(w.failed), 0)
	w.equal("in flight, waiting, letters", []any{w.ctl.Stats().InFlight, w.ctl.Stats().BacklogJobs, w.ctl.Stats().DeadLetters}, []any{1, 0, int64(0)})
}
