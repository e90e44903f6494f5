package delivery

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// withJobs is a world whose worker "a" holds n jobs, the first of them running.
func withJobs(t *testing.T, n int, edit func(*ControllerConfig)) (*world, *testWorker, *testProducer) {
	t.Helper()
	w := newWorld(t, edit)
	a := w.worker("a", nil)
	p := w.producer(100)
	w.submit(p, "", n)
	w.equal("in flight", w.ctl.Stats().InFlight, n)
	return w, a, p
}

func (tw *testWorker) register(nonce string) protocol.RegistrationAck {
	tw.w.t.Helper()
	tw.inject(protocol.RegisterConsumer{Version: protocol.Version, Nonce: nonce, Incarnation: tw.inc, Window: 50})
	for _, m := range slices.Backward(tw.received) {
		if m, ok := m.(protocol.RegistrationAck); ok && m.Nonce == nonce {
			return m
		}
	}
	return protocol.RegistrationAck{}
}

func (tw *testWorker) lastRefusal() protocol.RegistrationRefused {
	for _, m := range slices.Backward(tw.received) {
		if m, ok := m.(protocol.RegistrationRefused); ok {
			return m
		}
	}
	return protocol.RegistrationRefused{}
}

func TestB084_NewNonceKeepsTheSubFlow(t *testing.T) {
	w, a, _ := withJobs(t, 5, nil)
	a.finish("1", protocol.Confirmed)
	w.advance(10 * time.Millisecond)
	before := a.ref()
	ack := a.register("another nonce")
	w.equal("binding", protocol.BindingRef{BindingID: ack.BindingID, Secret: ack.Secret}, before)
	w.equal("next sequence", ack.NextSeq, 2)
	w.equal("in flight", w.ctl.Stats().InFlight, 4)
	w.equal("bindings", len(w.ctl.Stats().Bindings), 1)
	a.serve(confirmAll)
	w.advance(time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 5)
	w.equal("redelivered", w.ctl.Stats().Redelivered, 0)
}

func TestB085_SameNonceIsAcknowledgedAgain(t *testing.T) {
	w, a, _ := withJobs(t, 5, nil)
	w.equal("twice", a.register("n"), a.register("n"))
	w.equal("in flight", w.ctl.Stats().InFlight, 5)
}

func TestB087_NewBootNonceOfTheSamePodIsANewIncarnation(t *testing.T) {
	w, a, _ := withJobs(t, 5, nil)
	old := a.ref()
	w.advance(100 * time.Millisecond) // the start is reported
	a.dead = true                     // the container restarts: same pod UID, the old stream still looks open
	b := w.incarnation("a", "a-boot-2", nil)
	if b.ref().BindingID == old.BindingID || b.ref().Secret == old.Secret {
		t.Fatal("the new incarnation inherited the old binding")
	}
	w.equal("bindings", len(w.ctl.Stats().Bindings), 1)
	b.serve(confirmAll)
	w.equal("order", b.order, []string{"1", "2", "3", "4", "5"})
	w.equal("first sequence", b.starts[0].WorkerSeq, 1)
	w.equal("attempt of the running one", b.starts[0].Attempt, 2)
	w.equal("attempt of the others", b.starts[1].Attempt, 1)
}

func TestB089_DelayedRegistrationOfADeadIncarnation(t *testing.T) {
	w, a, _ := withJobs(t, 1, nil)
	a.die()
	b := w.incarnation("a", "a-boot-2", nil)
	ref := b.ref()
	a.dead = false
	a.connect() // a delayed registration of the dead process, even over a stream of its own
	w.equal("refused", a.lastRefusal().Code, protocol.RefusedSuperseded)
	w.equal("binding", w.ctl.Stats().Bindings[0].BindingID, ref.BindingID)
	w.equal("in flight", w.ctl.Stats().InFlight, 1)
}

func TestB090_TwoPodsWithOneNameAreTwoBindings(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.worker("uid-1", nil), w.worker("uid-2", nil)
	p := w.producer(10)
	w.submit(p, "", 4)
	w.equal("in flight", []int{len(a.running), len(b.running), w.ctl.Stats().InFlight}, []int{1, 1, 4})
	w.advance(time.Minute)
	w.equal("redelivered", w.ctl.Stats().Redelivered, 0)
}

func TestB092_QuietWorkerKeepsItsBinding(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil)
	p := w.producer(1)
	ref := a.ref()
	w.advance(time.Hour)
	w.equal("binding", a.ref(), ref)
	w.equal("bindings ever", w.ctl.bindings, 1)
	p.submit(newJob("x"))
	w.equal("started", a.order, []string{"x"})
}

func TestB093_OnlyTheLatestNonceCounts(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil)
	ref := a.ref()
	ack := protocol.RegistrationAck{
		Session: "s", Nonce: "not mine", BindingID: "b", Secret: "c", NextSeq: 1, Window: 1,
		Heartbeat: time.Second, Deadline: 10 * time.Second,
	}
	a.step(FromController{a.conn, ack})
	a.step(FromController{a.conn + 100, protocol.BindingEnded{BindingID: ref.BindingID}})
	w.equal("binding", a.ref(), ref)
	w.equal("dropped", a.cons.Status(w.now).Dropped, map[string]uint64{"stale-nonce": 1, "stale-connection": 1})
}

func TestRegistrationIsRefusedWithItsReason(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(m *protocol.RegisterConsumer)
		code protocol.RefusalCode
	}{
		{"B-095 version", func(m *protocol.RegisterConsumer) { m.Version = protocol.Version + 1 }, protocol.RefusedVersion},
		{"B-095 no version", func(m *protocol.RegisterConsumer) { m.Version = 0 }, protocol.RefusedVersion},
		{"B-101 window above the maximum", func(m *protocol.RegisterConsumer) { m.Window = 10_001 }, protocol.RefusedInvalid},
		{"B-101 window zero", func(m *protocol.RegisterConsumer) { m.Window = 0 }, protocol.RefusedInvalid},
		{"B-200 blank nonce", func(m *protocol.RegisterConsumer) { m.Nonce = "" }, protocol.RefusedInvalid},
		{"B-200 control character", func(m *protocol.RegisterConsumer) { m.Incarnation.BootNonce = "a\x00b" }, protocol.RefusedInvalid},
		{"B-081 another pod", func(m *protocol.RegisterConsumer) { m.Incarnation.PodUID = "b" }, protocol.RefusedIdentity},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, nil)
			a := w.worker("a", nil)
			m := protocol.RegisterConsumer{Version: protocol.Version, Nonce: "n", Incarnation: a.inc, Window: 50}
			tc.edit(&m)
			a.inject(m)
			w.equal("refused", a.lastRefusal().Code, tc.code)
			w.equal("bindings", len(w.ctl.Stats().Bindings), 1)
		})
	}
	t.Run("B-101 the maximum itself", func(t *testing.T) {
		w := newWorld(t, nil)
		w.worker("a", func(c *ConsumerConfig) { c.Window = protocol.MaxFlowControlWindow })
		w.equal("free demand", w.ctl.Stats().FreeDemand, protocol.MaxFlowControlWindow)
	})
}

// A violating worker loses its binding alone, comes back under another one and works on (B-102, B-103, G-X01).
func TestIllegalMessagesEndOneBinding(t *testing.T) {
	request := func(confirmed, upTo, started int64) func(protocol.BindingRef) protocol.FromWorker {
		return func(ref protocol.BindingRef) protocol.FromWorker {
			return protocol.Request{BindingRef: ref, ConfirmedSeq: confirmed, RequestUpTo: upTo, StartedSeq: started}
		}
	}
	for _, tc := range []struct {
		name string
		m    func(protocol.BindingRef) protocol.FromWorker
	}{
		{"B-102 demand beyond the maximum", request(0, 10_001, 0)},
		{"B-103 ends below confirmed", request(1, 0, 0)},
		{"B-103 confirms more than was sent", request(4, 50, 0)},
		{"B-103 negative", request(-1, 5, 0)},
		{"B-103 smallest", request(math.MinInt64, math.MaxInt64, 0)},
		{"B-103 largest demand", request(0, math.MaxInt64, 0)},
		{"B-103 largest confirmed", request(math.MaxInt64, math.MaxInt64, 0)},
		{"B-103 started beyond what was sent", request(0, 50, 4)},
		{"B-201 settles a sequence never sent", func(ref protocol.BindingRef) protocol.FromWorker {
			return protocol.Ack{BindingRef: ref, Settlements: []protocol.Settlement{{WorkerSeq: 4, MessageID: "4", Attempt: 1, Outcome: protocol.Confirmed}}}
		}},
		{"B-201 settles sequence zero", func(ref protocol.BindingRef) protocol.FromWorker {
			return protocol.Ack{BindingRef: ref, Settlements: []protocol.Settlement{{MessageID: "1", Attempt: 1, Outcome: protocol.Confirmed}}}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, nil)
			a := w.worker("a", nil)
			w.submit(w.producer(100), "", 3)
			b := w.worker("b", nil)
			other := b.ref()
			old := a.ref()
			a.inject(tc.m(old))
			w.equal("counted", w.ctl.Stats().Dropped[string(protocol.RefusedViolation)], 1)
			w.equal("the other binding", b.ref(), other)
			w.equal("requeued to the other", w.ctl.Stats().Bindings[0].InFlight, 3)
			a.serve(confirmAll)
			b.serve(confirmAll)
			w.advance(5 * time.Second)
			if a.ref() == old || !a.cons.Status(w.now).Registered {
				t.Fatalf("the worker did not come back: %+v", a.cons.Status(w.now))
			}
			w.submit(w.producer(100), "later", 4)
			w.equal("held", w.holds(), 0)
			w.equal("failed", len(w.failed), 0)
		})
	}
}

func TestB204_RepeatedViolationsCoolDown(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil)
	var waits []time.Duration
	for range 4 {
		a.inject(protocol.Request{BindingRef: a.ref(), ConfirmedSeq: -1})
		var ended protocol.BindingEnded
		for _, m := range a.received {
			if m, ok := m.(protocol.BindingEnded); ok {
				ended = m
			}
		}
		waits = append(waits, ended.RetryAfter)
		w.equal("refused meanwhile", a.register("impatient").BindingID, "")
		w.equal("code", a.lastRefusal().Code, protocol.RefusedCoolingDown)
		w.advance(3 * ended.RetryAfter)
		if !a.cons.Status(w.now).Registered {
			t.Fatalf("not back %v after a pause of %v", 3*ended.RetryAfter, ended.RetryAfter)
		}
	}
	w.equal("pauses", waits, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second})
}

func TestB204_FloodOfMalformedMessagesEndsTheStream(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.worker("a", nil), w.worker("b", nil)
	other := b.ref()
	conn := a.conn
	for i := range 10_000 {
		w.step(WorkerMessage{conn, protocol.RegisterConsumer{Version: protocol.Version, Nonce: fmt.Sprint("\x00", i), Incarnation: a.inc, Window: 1}})
	}
	if len(w.closed) == 0 || w.closed[0] != (CloseWorker{conn, protocol.RefusedViolation}) {
		t.Fatalf("closed %v", w.closed)
	}
	w.run()
	w.equal("the other binding", b.ref(), other)
	w.equal("counted", w.ctl.Stats().Dropped["malformed-registration"], 10_000)
}

func TestReconnectOfTheSameIncarnationKeepsEverything(t *testing.T) {
	w, a, _ := withJobs(t, 5, nil)
	ref := a.ref()
	// The stream breaks; what is sent meanwhile is lost.
	a.disconnect()
	w.submit(w.producer(10), "later", 3)
	w.equal("free demand", w.ctl.Stats().FreeDemand, 0)
	w.equal("backlog", w.ctl.Stats().BacklogJobs, 3)
	w.advance(5 * time.Second)
	a.connect()
	w.equal("binding", a.ref(), ref)
	a.serve(confirmAll)
	w.advance(time.Second)
	w.equal("order", a.order, []string{"1", "2", "3", "4", "5", "later1", "later2", "later3"})
	w.equal("redelivered", w.ctl.Stats().Redelivered, 0)
}

func TestUnknownBindingIsToldSo(t *testing.T) {
	w, a, _ := withJobs(t, 1, nil)
	old := a.ref()
	w.toWorker = func(_ *testWorker, m protocol.ToWorker) bool {
		_, ended := m.(protocol.BindingEnded)
		return !ended // the notice is lost
	}
	a.inject(protocol.Request{BindingRef: old, ConfirmedSeq: -1})
	w.toWorker = nil
	w.equal("still believes", a.ref(), old)
	w.advance(6 * time.Second)
	if a.ref() == old {
		t.Fatal("the worker never learned that its binding is over")
	}
}

func TestReconfigureKeepsBindings(t *testing.T) {
	w, a, _ := withJobs(t, 5, nil)
	ref := a.ref()
	cfg := DefaultControllerConfig()
	cfg.MaxWindow, cfg.MaxAttempts = 2, 3
	w.step(Reconfigure{cfg})
	w.run()
	w.equal("binding", a.ref(), ref)
	w.equal("in flight", w.ctl.Stats().InFlight, 5)
	w.equal("B-107 free demand under the new cap", w.ctl.Stats().FreeDemand, 0)
}

func TestAskingIsAnsweredWhileTheQueueLoads(t *testing.T) {
	w := newWorld(t, nil)
	w.loadErr = func() error { return errFlaky }
	w.boot(nil)
	a := w.worker("a", nil)
	w.equal("refusal", a.cons.Status(w.now).LastRefusal, "unavailable: the producer loads its queue")
	w.advance(90 * time.Millisecond)
	w.loadErr = nil
	w.advance(time.Second)
	w.equal("registered without asking again", a.cons.Status(w.now).Registered, true)
	w.equal("refusal", a.cons.Status(w.now).LastRefusal, "")
}

func TestARefusalsPauseSurvivesAReconnect(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil)
	for range 5 { // the fifth costs 16 s
		w.advance(time.Minute)
		a.inject(protocol.Request{BindingRef: a.ref(), ConfirmedSeq: -1})
	}
	asked := func() (n int) {
		for _, m := range a.sent {
			if _, ok := m.(protocol.RegisterConsumer); ok {
				n++
			}
		}
		return n
	}
	before := asked()
	a.disconnect()
	a.connect()
	w.advance(15 * time.Second)
	w.equal("asked during the pause", asked(), before)
	w.advance(10 * time.Second)
	w.equal("registered", a.cons.Status(w.now).Registered, true)
}

// B-174: a pod whose processes die again and again is kept away, longer each time, until it lives for a while.
func TestB174_FlappingPodMustWait(t *testing.T) {
	w := newWorld(t, nil)
	w.submit(w.producer(100), "", 20)
	refused := 0
	for i := range 12 {
		v := w.incarnation("flapping", fmt.Sprint("boot-", i), nil)
		if v.lastRefusal().Code == protocol.RefusedCoolingDown {
			refused++
		}
		w.advance(time.Second)
		v.die()
	}
	if refused < 4 {
		t.Fatalf("refused %d times", refused)
	}
	st := w.ctl.Stats()
	w.equal("quarantined", []any{len(st.Quarantined), st.Quarantined[0].Worker.PodName, st.Quarantined[0].Flapping}, []any{1, "flapping", true})
	w.worker("steady", nil).serve(confirmAll)
	w.advance(time.Hour)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 20)
	w.equal("quarantined after all", len(w.ctl.Stats().Quarantined), 0)
}

// The pauses double up to a limit, the time in quarantine does not count as good behaviour, and a quiet time forgives everything.
func TestB174_QuarantineDoublesAndIsForgiven(t *testing.T) {
	w := newWorld(t, nil)
	var waits []time.Duration
	boots := 0
	crash := func() {
		boots++
		v := w.incarnation("flapping", fmt.Sprint("boot-", boots), nil)
		if r := v.lastRefusal(); r.Code == protocol.RefusedCoolingDown {
			waits = append(waits, r.RetryAfter)
			w.advance(r.RetryAfter)
			v.die()
			w.step(WorkerGone{PodUID: "flapping", BootNonce: fmt.Sprint("boot-", boots), Reason: "its lease says so"})
			return
		}
		w.advance(3 * time.Second)
		v.die()
	}
	for range flappingDeaths + 1 + 11 {
		crash()
	}
	for i, got := range waits {
		if want := min(cooling<<(i+1), coolingMax); got > want || got < want-4*time.Second {
			t.Errorf("pause %d is %v, want %v", i, got, want)
		}
	}
	w.equal("longest pause", waits[len(waits)-1], coolingMax)
	w.advance(coolingMax)
	boots++
	v := w.incarnation("flapping", fmt.Sprint("boot-", boots), nil)
	w.advance(coolingMax + flappingWindow + time.Second)
	w.equal("bound again", v.cons.Status(w.now).Registered, true)
	w.advance(2 * flappingWindow)
	v.die()
	waits = nil
	for range flappingDeaths {
		crash()
	}
	w.equal("pauses after a quiet time", len(waits), 0)
}

// Idle processes count as well; a stream that breaks, or a silence with nothing at stake, does not.
func TestB174_OnlyDeathsCount(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("unlucky", nil)
	for range 20 {
		a.disconnect()
		a.connect()
		w.advance(time.Second)
	}
	for range 10 {
		w.toWorker = func(*testWorker, protocol.ToWorker) bool { return false }
		w.fromWorker = func(*testWorker, protocol.FromWorker) bool { return false }
		w.advance(11 * time.Second)
		w.toWorker, w.fromWorker = nil, nil
		w.advance(4 * time.Second)
	}
	w.equal("quarantined", len(w.ctl.Stats().Quarantined), 0)
	w.advance(time.Minute)
	w.equal("registered", a.cons.Status(w.now).Registered, true)
}

// The jobs of a flapping pod go elsewhere, also when it is back first.
func TestB174_JobsGoElsewhere(t *testing.T) {
	w := newWorld(t, nil)
	v := w.incarnation("flapping", "boot-0", nil)
	w.submit(w.producer(10), "", 1)
	w.advance(100 * time.Millisecond)
	w.equal("started", len(v.running), 1)
	v.die()
	b := w.worker("steady", nil)
	v = w.incarnation("flapping", "boot-1", nil)
	w.equal("shares", []int{len(v.starts), len(b.starts)}, []int{0, 1})
}

// A pod's quarantine goes with the pod.
func TestQuarantineGoesWithThePod(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 8 {
		w.incarnation("flapping", fmt.Sprint("boot-", i), nil).die()
	}
	w.equal("quarantined", len(w.ctl.Stats().Quarantined), 1)
	w.step(WorkerGone{PodUID: "flapping", Reason: "deleted"})
	w.equal("quarantined after the pod", len(w.ctl.Stats().Quarantined), 0)
	w.equal("timers", w.ctl.pods["flapping"].cooled.armed(), false)
}

func TestB205_SpentWorkerSequenceBeginsAnotherBinding(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil).serve(confirmAll)
	p := w.producer(10)
	old := a.ref()
	// The binding stands three sequences before its end.
	b := w.ctl.roster.ring[0]
	b.current, b.demand = protocol.MaxSequence-3, protocol.MaxSequence-3
	b.slots.reset(protocol.MaxSequence - 2)
	a.cons.sub.reset(protocol.MaxSequence - 2)
	a.cons.ask(w.now, false)
	a.step(ConsumerTick{})
	w.run()
	w.submit(p, "", 10)
	w.advance(5 * time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 10)
	w.equal("started", len(a.starts), 10)
	if a.ref() == old {
		t.Fatal("the binding outlived its sequence")
	}
	w.equal("dropped", w.ctl.Stats().Dropped[string(protocol.RefusedViolation)], 0)
}

func TestNewLivenessReachesAWorkerWithItsNextRegistration(t *testing.T) {
	w, a, _ := withJobs(t, 3, nil)
	cfg := DefaultControllerConfig()
	cfg.Heartbeat, cfg.Deadline = 100*time.Millisecond, 500*time.Millisecond
	w.step(Reconfigure{cfg})
	w.run()
	ref := a.ref()
	w.advance(10 * time.Second)
	w.equal("binding", a.ref(), ref)
	w.equal("deadline", a.register("again").Deadline, 500*time.Millisecond)
}

func TestWorkerGoneNamesItsIncarnation(t *testing.T) {
	w, a, _ := withJobs(t, 1, nil)
	a.die()
	b := w.incarnation("a", "a-boot-2", nil)
	ref := b.ref()
	w.step(WorkerGone{PodUID: "a", BootNonce: "a-boot-1", Reason: "another holder of its lease"}) // late news
	w.run()
	w.equal("binding", []any{b.ref(), len(w.ctl.Stats().Bindings)}, []any{ref, 1})
	w.step(WorkerGone{PodUID: "a", BootNonce: "a-boot-2", Reason: "another holder of its lease"})
	w.run()
	w.equal("bindings", len(w.ctl.Stats().Bindings), 0)
	w.equal("refused from now on", b.lastRefusal().Code, protocol.RefusedSuperseded)
}

func TestI12_ForgottenPodsAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	for i := range unboundPods + 500 {
		w.last++
		pod := fmt.Sprint("pod-", i)
		w.step(WorkerConnected{Conn: w.last, Worker: Worker{PodUID: pod}})
		w.step(WorkerMessage{w.last, protocol.RegisterConsumer{
			Version: protocol.Version, Nonce: "n", Incarnation: protocol.Incarnation{PodUID: pod, BootNonce: "b"}, Window: 1,
		}})
		w.step(WorkerGone{PodUID: pod, Reason: "deleted"})
		w.step(WorkerDisconnected{w.last})
	}
	if n := len(w.ctl.pods); n > unboundPods+1 {
		t.Fatalf("%d pods remembered", n)
	}
	w.now += 2 * unboundFor
	w.worker("late", nil).kill()
	w.equal("after a while", len(w.ctl.pods), 1)
}

func TestANewWindowIsRegistered(t *testing.T) {
	w, a, _ := withJobs(t, 50, nil)
	ref := a.ref()
	cfg := DefaultConsumerConfig()
	cfg.Window = 60
	a.step(ReconfigureConsumer{cfg})
	w.run()
	w.equal("binding", a.ref(), ref)
	w.equal("free demand", w.ctl.Stats().FreeDemand, 10)
}
