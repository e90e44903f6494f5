package delivery

import (
	"fmt"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

func attemptsIn(batches []queue.Batch) (n int) {
	for _, b := range batches {
		n += len(b.Attempts)
	}
	return n
}

func TestB160_CrashBeforeTheStartIsNoAttempt(t *testing.T) {
	w, a, _ := withJobs(t, 2, nil)
	w.advance(100 * time.Millisecond)
	a.kill()
	b := w.worker("b", nil).serve(confirmAll)
	w.advance(time.Second)
	w.equal("order", b.order, []string{"1", "2"})
	w.equal("attempts", []int{b.starts[0].Attempt, b.starts[1].Attempt}, []int{2, 1})
	w.equal("redelivered", []bool{b.starts[0].Redelivered, b.starts[1].Redelivered}, []bool{true, true})
}

func TestB161_B162_CrashDuringTheHandlerCounts(t *testing.T) {
	w, a, _ := withJobs(t, 1, nil)
	w.advance(100 * time.Millisecond)
	a.kill()
	w.boot(nil) // the count is durable
	w.equal("rows", w.holds(), 1)
	w.equal("attempts", w.job("1").attempts, 1)
	b := w.worker("b", nil)
	w.equal("message id", b.starts[0].Job.MessageID, "1")
	w.equal("attempt", b.starts[0].Attempt, 2)
}

func TestB164_NotRunAgainAfterTheConfirm(t *testing.T) {
	w, a, _ := withJobs(t, 1, nil)
	a.finish("1", protocol.Confirmed)
	a.kill()
	b := w.worker("b", nil)
	w.advance(time.Second)
	w.equal("started", len(b.starts), 0)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
}

func TestB165_RequeueGoesToTheHeadInStoreOrder(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", func(c *ConsumerConfig) { c.Window = 5 })
	a.serve(func(d protocol.Delivery) protocol.Outcome {
		if d.StoreSeq <= 2 {
			return protocol.Confirmed
		}
		return 0
	})
	w.submit(w.producer(20), "", 9)
	w.equal("held 3 to 7", w.ctl.Stats().InFlight, 5)
	w.equal("backlog", w.ctl.Stats().BacklogJobs, 2)
	a.kill()
	b := w.worker("b", nil).serve(confirmAll)
	w.advance(time.Second)
	w.equal("order", b.order, []string{"3", "4", "5", "6", "7", "8", "9"})
}

func TestRequeueOrderDoesNotDependOnTheOrderOfDeaths(t *testing.T) {
	w := newWorld(t, nil)
	var workers []*testWorker
	for i := range 4 {
		workers = append(workers, w.worker(fmt.Sprint("w", i), func(c *ConsumerConfig) { c.Window = 5 }))
	}
	w.submit(w.producer(50), "", 30)
	for _, i := range []int{2, 0, 3, 1} {
		workers[i].kill()
	}
	z := w.worker("z", nil).serve(confirmAll)
	w.advance(time.Minute)
	for i, id := range z.order {
		w.equal("order", id, fmt.Sprint(i+1))
	}
	w.equal("all", len(z.order), 30)
}

func TestB167_RequeueWritesNothing(t *testing.T) {
	w, a, _ := withJobs(t, 5, nil)
	a.step(AppReady{false}) // nothing of it runs
	before := len(w.batches)
	a.kill()
	w.equal("backlog", w.ctl.Stats().BacklogJobs, 5)
	if writes := attemptsIn(w.batches[before:]); writes > 1 { // the one that ran has had a try
		t.Fatalf("%d writes", writes)
	}
}

func TestB168_JobsWaitForAWorker(t *testing.T) {
	w, a, _ := withJobs(t, 5, nil)
	a.kill()
	w.advance(24 * time.Hour)
	w.equal("backlog", w.ctl.Stats().BacklogJobs, 5)
	b := w.worker("b", nil).serve(confirmAll)
	w.advance(time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 5)
	_ = b
}

func TestB169_SilentWorkerIsLostAtItsDeadline(t *testing.T) {
	w, a, _ := withJobs(t, 3, nil)
	a.dead = true // it hangs: the stream stays open
	b := w.worker("b", nil)
	w.advance(9 * time.Second)
	w.equal("still held", w.ctl.Stats().Bindings[0].InFlight, 3)
	w.submit(w.producer(10), "new", 2)
	w.equal("B-224 nothing new for the silent one", w.ctl.Stats().Bindings[1].InFlight, 2)
	w.advance(2 * time.Second)
	w.equal("bindings", len(w.ctl.Stats().Bindings), 1)
	w.equal("in flight", w.ctl.Stats().InFlight, 5)
	w.equal("closed", w.closed[0].Code, protocol.RefusedDeadlineExpired)
	_ = b
}

func TestPausedProducerExpelsNobody(t *testing.T) {
	w, a, _ := withJobs(t, 3, nil)
	ref := a.ref()
	w.now += 30 * time.Second // the producer stood still, and so did what its workers said
	w.step(Paused{For: 30 * time.Second})
	w.run()
	w.equal("bindings", len(w.ctl.Stats().Bindings), 1)
	w.advance(5 * time.Second)
	w.equal("binding", a.ref(), ref)
	a.serve(confirmAll)
	w.advance(time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 3)
}

func TestWorkerStopsStartingWhenTheControllerIsSilent(t *testing.T) {
	w, a, _ := withJobs(t, 3, nil)
	w.toWorker = func(*testWorker, protocol.ToWorker) bool { return false }
	conn := a.conn
	w.advance(8 * time.Second)
	a.finish("1", protocol.Confirmed)
	w.equal("started in doubt", len(a.starts), 1)
	w.advance(3 * time.Second)
	if a.conn == conn {
		t.Fatal("the worker kept a stream that was silent for a deadline")
	}
	w.toWorker = nil
	w.advance(5 * time.Second)
	w.equal("works on", len(a.starts), 2)
}

func TestPausedWorkerGrantsItsControllerAPeriod(t *testing.T) {
	w, a, _ := withJobs(t, 3, nil)
	conn := a.conn
	w.now += 9 * time.Second
	a.step(ConsumerPaused{For: 9 * time.Second})
	a.step(HandlerDone{Run: a.running["1"].Run, Outcome: protocol.Confirmed})
	w.run()
	w.equal("started", len(a.starts), 2)
	w.equal("stream", a.conn, conn)
}

// A worker that stood still for longer than its binding can live starts nothing on its account before the controller has spoken: its jobs
// are with others by now.
func TestLongPausedWorkerAsksBeforeItStarts(t *testing.T) {
	w, a, _ := withJobs(t, 3, nil)
	w.now += time.Minute
	w.step(Tick{}) // the producer gives it up; the word is on its way
	a.step(ConsumerPaused{For: time.Minute})
	a.step(HandlerDone{Run: a.running["1"].Run, Outcome: protocol.Confirmed})
	w.equal("started before the word", len(a.starts), 1)
	b := w.worker("b", nil).serve(confirmAll)
	a.serve(confirmAll)
	w.advance(10 * time.Second)
	w.equal("runs", len(a.starts)+len(b.starts), 3)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 3)
}

// A pause while there is no stream is asked about on the next one.
func TestLongPausedWorkerWithoutAStreamStartsNothing(t *testing.T) {
	w, a, _ := withJobs(t, 3, nil)
	a.disconnect()
	w.now += time.Minute
	a.step(ConsumerPaused{For: time.Minute})
	a.step(HandlerDone{Run: a.running["1"].Run, Outcome: protocol.Confirmed})
	w.equal("started before the word", len(a.starts), 1)
	delete(a.running, "1")
	a.serve(confirmAll)
	a.connect()
	w.advance(10 * time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 3)
	w.equal("runs", len(a.starts), 3)
}

func TestB172_GracefulDrain(t *testing.T) {
	w, a, _ := withJobs(t, 5, nil)
	a.step(Cordon{Force: true})
	w.advance(5 * time.Millisecond)
	w.equal("handed back", w.ctl.Stats().BacklogJobs, 4)
	w.equal("draining", w.ctl.Stats().Bindings[0].Draining, true)
	w.equal("drained while one runs", a.drained, 0)
	w.submit(w.producer(10), "new", 2)
	w.equal("no new demand", w.ctl.Stats().InFlight, 1)
	a.finish("1", protocol.Confirmed)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
	w.equal("drained", a.drained, 1)
	w.advance(time.Minute)
	w.equal("drained once", a.drained, 1)
	b := w.worker("b", nil).serve(confirmAll)
	w.equal("order", b.order, []string{"2", "3", "4", "5", "new1", "new2"})
	w.equal("attempt", b.starts[0].Attempt, 1)
	w.equal("uncounted", attemptsIn(w.batches), 0)
}

func TestDrainWithoutABindingEnds(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil)
	a.disconnect()
	a.step(Cordon{Force: true})
	w.equal("drained", a.drained, 1)
}

func TestDrainWaitsUntilItsConfirmsAreTakenOver(t *testing.T) {
	w, a, _ := withJobs(t, 1, nil)
	a.step(Cordon{Force: true})
	w.holdApply = true
	a.finish("1", protocol.Confirmed)
	w.advance(10 * time.Millisecond)
	w.equal("drained before the write", a.drained, 0)
	w.release()
	w.equal("drained", a.drained, 1)
}

// B-172: a job that finishes while its worker has no binding is told before the drain is over, or it would run again elsewhere.
func TestDrainWaitsUntilAFinishedJobIsClaimed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		finish func(w *world, a *testWorker, end func())
	}{
		{"finished without a binding", func(w *world, a *testWorker, end func()) { end(); a.finish("1", protocol.Confirmed) }},
		{"finished, not taken over when the binding ends", func(w *world, a *testWorker, end func()) { a.finish("1", protocol.Confirmed); end() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, a, _ := withJobs(t, 2, nil)
			w.advance(time.Second)
			a.step(Cordon{Force: true})
			w.run()
			w.fromWorker = func(tw *testWorker, _ protocol.FromWorker) bool { return tw != a } // nothing that it says arrives
			tc.finish(w, a, func() {
				w.step(WorkerGone{PodUID: "a", BootNonce: "a-boot-1", Reason: "a mistake"})
				w.run()
			})
			w.equal("drained before it was told", a.drained, 0)
			a.step(Cordon{})
			w.equal("idle", a.cons.Status(w.now).Idle, false)
			w.fromWorker = nil
			w.boot(nil)
			a.connect()
			w.advance(time.Second)
			w.equal("drained", a.drained, 1)
			w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
			w.equal("left", w.ctl.Stats().BacklogJobs, 1)
		})
	}
}

func TestCordonIfIdle(t *testing.T) {
	w, a, p := withJobs(t, 1, nil)
	a.step(Cordon{})
	w.equal("busy", a.cons.Status(w.now).Cordoned, false)
	a.finish("1", protocol.Confirmed)
	a.step(Cordon{})
	w.run()
	w.equal("idle", a.cons.Status(w.now).Cordoned, true)
	p.submit(newJob("x"))
	w.equal("backlog", w.ctl.Stats().BacklogJobs, 1)
	a.step(Uncordon{})
	w.run()
	w.equal("order", a.order, []string{"1", "x"})
}

func TestB174_JobThatKillsItsWorkersBacksOffAndEnds(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MaxAttempts = 4 })
	w.submit(w.producer(1), "poison", 1)
	deaths := 0
	for i := range 40 {
		v := w.worker(fmt.Sprint("victim", i), nil)
		w.advance(100 * time.Millisecond)
		if len(v.running) > 0 {
			deaths++
		}
		v.kill()
		w.advance(time.Second)
	}
	w.equal("B-185 workers lost", deaths, 4)
	w.equal("dead letters", w.ctl.Stats().DeadLetters, 1)
	w.equal("settled", w.settled, []JobSettled{{
		Ref: queue.JobRef{MessageID: "poison1", StoreSeq: 1}, DeadLettered: true, Reason: "the worker was lost while it ran the job",
	}})
}

func TestUncountedDeliveriesAreCapped(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MaxAttempts = 2; c.BackoffMax = 2 * time.Second })
	w.submit(w.producer(1), "", 1)
	n := 0
	for i := range 100 {
		v := w.worker(fmt.Sprint("victim", i), nil)
		if len(v.running) > 0 {
			n++
		}
		v.kill() // before it could say that it started
		w.advance(time.Second)
	}
	w.equal("deliveries", n, 10) // five times MaxAttempts
	w.equal("dead letters", w.ctl.Stats().DeadLetters, 1)
}
