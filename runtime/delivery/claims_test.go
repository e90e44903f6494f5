package delivery

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// restart replaces the producer by a new process over the same queue; workers come back only by connect.
func (w *world) restart() { w.boot(nil) }

// claimsIn is what a worker claimed last.
func (tw *testWorker) claimsIn() []protocol.Claim {
	for _, sent := range slices.Backward(tw.sent) {
		if m, ok := sent.(protocol.RegisterConsumer); ok {
			return m.Claims
		}
	}
	return nil
}

// forge registers with claims as if the worker had sent them.
func (tw *testWorker) forge(claims ...protocol.Claim) {
	tw.inject(protocol.RegisterConsumer{Version: protocol.Version, Nonce: tw.w.rnd.ID(), Incarnation: tw.inc, Window: 50, Claims: claims})
}

// claimOf is a true claim of a delivery.
func claimOf(d protocol.Delivery, state protocol.ClaimState) protocol.Claim {
	return protocol.Claim{StoreSeq: d.StoreSeq, MessageID: d.Job.MessageID, Attempt: d.Attempt, Ticket: d.Ticket, State: state}
}

// B-238, B-027, G-X11: a reload while workers are mid-job re-adopts what they hold; nothing of it runs again.
func TestB238_RunningJobsAreAdopted(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(10)
	a, b := w.worker("a", nil), w.worker("b", nil)
	p.submit(newJob("1"), newJob("2"))
	w.equal("running on a and b", []int{len(a.running), len(b.running)}, []int{1, 1})
	w.restart()
	idle := w.worker("idle", nil).serve(confirmAll)
	w.advance(2 * time.Second)
	w.equal("started while the others are away", len(idle.starts), 0)
	a.connect()
	b.connect()
	w.equal("adopted", w.ctl.Stats().Adopted, 2)
	w.equal("in flight", w.ctl.Stats().InFlight, 2)
	a.finish("1", protocol.Confirmed)
	b.finish("2", protocol.Nacked)
	w.advance(10 * time.Millisecond)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
	w.equal("the failure counts", w.job("2").attempts, 1)
	w.equal("starts", []int{len(a.starts), len(b.starts), len(idle.starts)}, []int{1, 1, 0})
	w.advance(5 * time.Second)
	w.equal("the failed one was tried again", w.ctl.Stats().Confirmed, 2)
}

// What a handler says while its worker waits for the answer of a producer that loads its queue counts as what it is: only a failure is a try.
func TestB238_TheLastWordOfAnAdoptedRunCounts(t *testing.T) {
	for _, tc := range []struct {
		outcome                            protocol.Outcome
		attempts, uncounted, dead, confirm int
	}{
		{outcome: protocol.Nacked, attempts: 1},
		{outcome: protocol.Delayed},
		{outcome: protocol.HandedBack, uncounted: 1},
		{outcome: protocol.Rejected, dead: 1},
		{outcome: protocol.Confirmed, confirm: 1},
	} {
		t.Run(tc.outcome.String(), func(t *testing.T) {
			w := newWorld(t, nil)
			a := w.worker("a", nil)
			w.submit(w.producer(10), "", 1)
			w.restart()
			var ack protocol.RegistrationAck
			w.toWorker = func(_ *testWorker, m protocol.ToWorker) bool {
				late, ok := m.(protocol.RegistrationAck)
				if ok {
					ack = late
				}
				return !ok
			}
			a.connect()
			a.finish("1", tc.outcome)
			w.toWorker = nil
			a.receive(a.conn, ack)
			w.advance(100 * time.Millisecond)
			st := w.ctl.Stats()
			w.equal("dead letters, confirmed", []int{int(st.DeadLettered), int(st.Confirmed)}, []int{tc.dead, tc.confirm})
			if tc.dead > 0 {
				w.equal("reason", w.settled[0].Reason, tc.outcome)
			}
			if j := w.job("1"); j != nil {
				w.equal("attempts, uncounted", []int32{j.attempts, j.uncounted}, []int{tc.attempts, tc.uncounted})
			}
			w.equal("kept", len(a.cons.lastWords), 0)
		})
	}
}

// B-147, B-238: what was confirmed and never became durable is completed by the claim, and by nothing else.
func TestB147_FinishedJobsAreCompletedByTheirClaim(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(10)
	a := w.worker("a", func(c *ConsumerConfig) { c.Concurrency = 4 })
	p.submit(newJob("1"), newJob("2"), newJob("3"))
	w.holdApply = true
	a.finish("1", protocol.Confirmed) // the write of its confirm never happens
	w.advance(50 * time.Millisecond)
	a.disconnect()
	a.finish("2", protocol.Confirmed) // finished while there is no producer
	w.holdApply = false
	w.restart()
	a.connect()
	w.equal("completed", w.ctl.Stats().Confirmed, 2)
	w.equal("claimed", w.ctl.Stats().Claimed, 2)
	w.equal("adopted", w.ctl.Stats().Adopted, 1)
	a.finish("3", protocol.Confirmed)
	w.advance(time.Second)
	w.equal("held", w.holds(), 0)
	w.equal("starts", len(a.starts), 3)
	w.equal("unsettled at the worker", a.cons.Status(w.now).Unsettled, 0)
	w.equal("nothing left to claim", len(a.cons.claims()), 0)
}

// B-143: A's binding ended, the job went to B, then A proves that it had finished it: the job is complete, B's copy is taken back,
// and the submitter hears of one completion.
func TestB143_LateSuccessCompletesTheJobElsewhere(t *testing.T) {
	for _, tc := range []struct {
		name    string
		started bool // B runs its copy already
	}{{"buffered at b", false}, {"running at b", true}} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, func(c *ControllerConfig) { c.DeliveryConfirmation = true })
			p := w.producer(10)
			a := w.worker("a", nil)
			p.submit(newJob("1"))
			a.disconnect()
			w.step(WorkerGone{PodUID: "a", BootNonce: "other", Reason: "a mistake"})
			w.advance(11 * time.Second)
			a.finish("1", protocol.Confirmed)
			b := w.worker("b", nil)
			if !tc.started {
				b.kill()
				b = w.worker("c", nil)
				b.step(AppReady{false})
				w.fromWorker = func(tw *testWorker, m protocol.FromWorker) bool {
					_, ack := m.(protocol.Ack)
					return tw != b || !ack // it takes deliveries and hands nothing back
				}
				w.advance(5 * time.Second)
				b.inject(protocol.Request{BindingRef: b.ref(), RequestUpTo: 1})
			}
			w.equal("in flight at the other", w.job("1").place, bound)
			before := len(b.starts)
			a.connect()
			w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
			w.equal("held", w.holds(), 0)
			w.fromWorker = nil
			if tc.started {
				b.finish("1", protocol.Confirmed) // B-144: late, and changes nothing
			}
			w.advance(5 * time.Second)
			w.equal("confirmed once", w.ctl.Stats().Confirmed, 1)
			w.equal("completions told", len(p.confirmed), 1)
			w.equal("settled once", len(w.settled), 1)
			w.equal("starts at the other", len(b.starts), before)
			w.equal("in flight", w.ctl.Stats().InFlight, 0)
			p.submit(newJob("2"))
			w.equal("works on", w.ctl.Stats().InFlight, 1)
			w.equal("bindings", len(w.ctl.Stats().Bindings), 2)
		})
	}
}

// B-238: proof that the handler finished beats a dead letter.
func TestB238_LateSuccessRevivesADeadLetter(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MaxAttempts = 1; c.DeliveryConfirmation = true })
	p := w.producer(10)
	a := w.worker("a", nil)
	p.submit(newJob("1"))
	w.advance(100 * time.Millisecond) // its start is reported
	a.disconnect()
	w.advance(11 * time.Second)
	w.equal("dead letters", w.ctl.Stats().DeadLetters, 1)
	a.finish("1", protocol.Confirmed)
	a.connect()
	w.advance(time.Second)
	w.equal("dead letters", w.ctl.Stats().DeadLetters, 0)
	w.equal("completions told", len(p.confirmed), 1)
	state, ok, err := w.queue.Lookup(t.Context(), "1")
	w.equal("in the queue", []any{ok, err, state.Status}, []any{true, nil, queue.StatusConfirmed})
	w.equal("nothing left to claim", len(a.cons.claims()), 0)
}

// B-238: nothing but the ticket of that very delivery, on a stream of the pod that it was given to, counts.
func TestClaimsThatProveNothingChangeNothing(t *testing.T) {
	for _, tc := range []struct {
		name    string
		edit    func(*protocol.Claim)
		foreign bool
		dropped string
	}{
		{"another pod's ticket", func(*protocol.Claim) {}, true, "claim-ticket"},
		{"no such ticket", func(c *protocol.Claim) { c.Ticket[3] ^= 1 }, false, "claim-ticket"},
		{"another attempt", func(c *protocol.Claim) { c.Attempt++ }, false, "claim-ticket"},
		{"another sequence", func(c *protocol.Claim) { c.StoreSeq++ }, false, "claim-ticket"},
		{"another job", func(c *protocol.Claim) { c.MessageID = "2" }, false, "claim-ticket"},
	} {
		for _, state := range []protocol.ClaimState{protocol.ClaimRunning, protocol.ClaimConfirmed, protocol.ClaimLost} {
			t.Run(fmt.Sprint(tc.name, " ", state), func(t *testing.T) {
				w := newWorld(t, nil)
				p := w.producer(10)
				a := w.worker("a", nil)
				p.submit(newJob("1"), newJob("2"))
				claim := claimOf(a.starts[0], state)
				tc.edit(&claim)
				w.restart()
				intruder := w.worker("b", nil)
				if !tc.foreign { // a second process of the same pod, which cannot hold what the first one runs
					intruder.die()
					a.dead = true
					intruder = w.incarnation("a", "a-boot-2", nil)
				}
				before := w.ctl.Stats()
				intruder.forge(claim)
				after := w.ctl.Stats()
				w.equal("counted", after.Dropped[tc.dropped]-before.Dropped[tc.dropped], 1)
				w.equal("adopted or completed", []uint64{after.Adopted, after.Claimed, after.Confirmed}, []uint64{0, 0, 0})
				w.equal("attempts", []int32{w.job("1").attempts, w.job("2").attempts}, []int32{0, 0})
				w.equal("held", w.holds(), 2)
			})
		}
	}
}

// An attempt that was counted is over: who still runs it has no claim to the next one.
func TestRunningClaimOfAnOlderAttemptIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(10)
	a := w.worker("a", nil)
	p.submit(newJob("1"))
	w.advance(100 * time.Millisecond)
	a.disconnect()
	w.advance(11 * time.Second)
	w.equal("the lost try counts", w.job("1").attempts, 1)
	w.step(SetIntake{Open: true})
	a.connect()
	w.equal("counted", w.ctl.Stats().Dropped["claim-attempt"], 1)
	w.equal("adopted", w.ctl.Stats().Adopted, 0)
	w.step(SetIntake{Open: true, Dispatch: true})
	w.run()
	w.equal("its redelivery joins the run", len(a.starts), 1)
	a.finish("1", protocol.Confirmed)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
}

// A sidecar that died says at its next start what it ran: the try counts, once, and the job runs again at once.
func TestLostClaimCountsOnceAndRequeues(t *testing.T) {
	for _, tc := range []struct {
		name     string
		reported bool // the controller had heard of the start
		restart  bool // the producer died too
	}{{"start not reported", false, false}, {"start reported", true, false}, {"after a producer crash", true, true}} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, nil)
			p := w.producer(10)
			a := w.worker("a", nil)
			w.worker("away", nil).disconnect()
			p.submit(newJob("1"))
			if tc.reported {
				w.advance(100 * time.Millisecond)
			}
			lost := claimOf(a.starts[0], protocol.ClaimLost)
			a.dead = true
			a.disconnect()
			if tc.restart {
				w.restart()
			}
			again := &testWorker{w: w, name: "a", inc: protocol.Incarnation{PodUID: "a", BootNonce: "a-boot-2"}, running: map[string]StartHandler{}}
			again.cons = NewConsumer(DefaultConsumerConfig(), again.inc, w.rnd)
			w.workers = append(w.workers, again)
			again.step(AppReady{true})
			again.step(HoldClaims{Claims: []protocol.Claim{lost}})
			again.step(OrphansGone{}) // what the process before began holds its slot no more
			again.connect()
			w.equal("claimed", again.claimsIn(), []protocol.Claim{lost})
			w.equal("the try counts", w.job("1").attempts, 1)
			w.equal("runs again at once", len(again.starts), 1)
			w.equal("as attempt", again.starts[0].Attempt, 2)
			w.equal("said once", len(again.cons.claims()), 1) // the new run alone
			again.disconnect()
			again.connect()
			w.equal("counted once", w.job("1").attempts, 1)
			again.finish("1", protocol.Confirmed)
			w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
		})
	}
}

// More running jobs than the window allows are adopted all the same: they run.
func TestAdoptionGoesBeyondTheWindow(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(10)
	a := w.worker("a", func(c *ConsumerConfig) { c.Concurrency = 4 })
	w.submit(p, "", 6)
	w.equal("running", len(a.running), 4)
	w.boot(func(c *ControllerConfig) { c.MaxWindow = 1 })
	a.connect()
	w.equal("adopted", w.ctl.Stats().Adopted, 4)
	w.equal("free demand", w.ctl.Stats().FreeDemand, 0)
	a.serve(confirmAll)
	w.advance(5 * time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 6)
	w.equal("starts", len(a.starts), 6)
}

// B-172 across a producer restart: a draining worker keeps what it runs although it wants nothing.
func TestDrainingWorkerIsAdopted(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(10)
	a := w.worker("a", nil)
	p.submit(newJob("1"))
	a.step(Cordon{Force: true})
	w.run()
	w.restart()
	a.connect()
	w.equal("adopted", w.ctl.Stats().Adopted, 1)
	w.equal("drained", a.drained, 0)
	a.finish("1", protocol.Confirmed)
	w.advance(time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
	w.equal("drained", a.drained, 1)
	w.equal("starts", len(a.starts), 1)
}

// An acknowledgement that was lost is repeated with the same places.
func TestLostAdoptionIsRepeated(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(10)
	a := w.worker("a", nil)
	p.submit(newJob("1"), newJob("2"))
	w.restart()
	lose := 1
	w.toWorker = func(_ *testWorker, m protocol.ToWorker) bool {
		if _, ok := m.(protocol.RegistrationAck); ok && lose > 0 {
			lose--
			return false
		}
		return true
	}
	a.connect()
	w.equal("adopted", w.ctl.Stats().Adopted, 1)
	w.advance(3 * time.Second)
	w.equal("adopted once", w.ctl.Stats().Adopted, 1)
	w.equal("joined", a.cons.detached, 0)
	a.serve(confirmAll)
	w.advance(time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 2)
	w.equal("starts", len(a.starts), 2)
}

// A job whose payload is out of memory is adopted without reading it.
func TestColdJobsAreAdoptedAndCompletedUnread(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MemoryBytes = 1 })
	p := w.producer(10)
	a := w.worker("a", func(c *ConsumerConfig) { c.Concurrency = 2 })
	p.submit(newJob("1"), newJob("2"))
	a.disconnect()
	a.finish("2", protocol.Confirmed)
	w.boot(func(c *ControllerConfig) { c.MemoryBytes = 1 })
	reads := w.reads
	a.connect()
	w.equal("reads", w.reads-reads, 0)
	w.equal("adopted and completed", []uint64{w.ctl.Stats().Adopted, w.ctl.Stats().Confirmed}, []uint64{1, 1})
	a.kill()
	b := w.worker("b", nil).serve(confirmAll)
	w.advance(time.Second)
	w.equal("read when it has to run elsewhere", b.order, []string{"1"})
}

// The reload inside one process goes the same way (B-232).
func TestReloadInOneProcessAdopts(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(10)
	a, b := w.worker("a", nil), w.worker("b", nil)
	p.submit(newJob("1"), newJob("2"))
	w.equal("running", []int{len(a.running), len(b.running)}, []int{1, 1})
	fails := 3
	w.applyErr = func(batch queue.Batch) error {
		if len(batch.Stores) > 0 && fails > 0 {
			fails--
			return errFlaky
		}
		return nil
	}
	p.submit(newJob("3"))
	w.advance(time.Second)
	w.equal("loads", w.loads, 2)
	w.advance(5 * time.Second)
	w.equal("adopted", w.ctl.Stats().Adopted, 2)
	a.serve(confirmAll)
	b.serve(confirmAll)
	w.advance(5 * time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 3)
	w.equal("starts", len(a.starts)+len(b.starts), 3)
}

// A job that was finished outside of the binding is claimed at once, not at the next registration that happens for another reason.
func TestSuccessOutsideOfTheBindingIsClaimedSoon(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MaxAttempts = 1; c.DeliveryConfirmation = true })
	p := w.producer(10)
	a := w.worker("a", nil)
	p.submit(newJob("1"))
	w.advance(100 * time.Millisecond)
	a.disconnect()
	w.advance(11 * time.Second)
	w.equal("dead letters", w.ctl.Stats().DeadLetters, 1)
	a.connect()
	ref := a.ref()
	a.finish("1", protocol.Confirmed)
	w.advance(100 * time.Millisecond)
	w.equal("dead letters", w.ctl.Stats().DeadLetters, 0)
	w.equal("completions told", len(p.confirmed), 1)
	w.equal("the binding", a.ref(), ref)
}

// What a worker starts after it has said what it holds, nobody knows of: between a registration on a new stream and its answer it
// starts nothing.
func TestNothingStartsBetweenTheClaimsAndTheirAnswer(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(10)
	a := w.worker("a", nil)
	p.submit(newJob("1"), newJob("2"), newJob("3"))
	a.disconnect()
	a.finish("1", protocol.Confirmed)
	w.equal("it works on without a stream", len(a.starts), 2)
	w.restart()
	var late []protocol.FromWorker
	w.fromWorker = func(_ *testWorker, m protocol.FromWorker) bool {
		late = append(late, m) // on its way
		return false
	}
	a.connect()
	a.finish("2", protocol.Confirmed)
	w.equal("started before the answer", len(a.starts), 2)
	w.fromWorker = nil
	for _, m := range late {
		a.inject(m)
	}
	b := w.worker("b", nil)
	w.advance(3 * time.Second)
	w.equal("starts of the third", len(a.starts)+len(b.starts)-2, 1)
	a.serve(confirmAll)
	b.serve(confirmAll)
	w.advance(time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 3)
}
