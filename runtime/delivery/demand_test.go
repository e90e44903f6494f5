package delivery

import (
	"fmt"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

func TestB100_WindowOne(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", func(c *ConsumerConfig) { c.Window = 1 })
	w.submit(w.producer(10), "", 5)
	for i := 1; i <= 5; i++ {
		w.equal("in flight", w.ctl.Stats().InFlight, 1)
		a.finish(fmt.Sprint(i), protocol.Confirmed)
	}
	w.equal("confirmed", w.ctl.Stats().Confirmed, 5)
	w.equal("time passed", w.now, Now(0))
}

func TestB105_OlderDemandAfterNewer(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", func(c *ConsumerConfig) { c.Window = 10 })
	a.inject(protocol.Request{BindingRef: a.ref(), RequestUpTo: 3})
	w.equal("free demand", w.ctl.Stats().FreeDemand, 10)
}

func TestB106_NeverMoreThanTheWindowInFlight(t *testing.T) {
	// world.check verifies I-4 after every round; here settlements get lost and the lane is slow, which is when it is hard.
	w := newWorld(t, nil)
	n := 0
	w.fromWorker = func(_ *testWorker, m protocol.FromWorker) bool {
		n++
		_, ack := m.(protocol.Ack)
		return !ack || n%3 == 0
	}
	a := w.worker("a", func(c *ConsumerConfig) { c.Window, c.Concurrency = 5, 3 }).serve(confirmAll)
	w.submit(w.producer(100), "", 60)
	w.advance(10 * time.Minute)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 60)
	w.equal("started", len(a.starts), 60)
}

func TestB107_TheFlowCapsTheWindow(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MaxWindow = 4 })
	w.worker("a", func(c *ConsumerConfig) { c.Window = 50 })
	w.submit(w.producer(100), "", 20)
	w.equal("in flight", w.ctl.Stats().InFlight, 4)
}

func TestB108_SlowWorkerGetsItsShareByDemand(t *testing.T) {
	w := newWorld(t, nil)
	slow := w.worker("slow", func(c *ConsumerConfig) { c.Window = 5 })
	var fast []*testWorker
	for i := range 3 {
		fast = append(fast, w.worker(fmt.Sprint("fast", i), func(c *ConsumerConfig) { c.Window = 5 }).serve(confirmAll))
	}
	w.submit(w.producer(100), "", 1000)
	w.advance(5 * time.Second)
	if held := 1000 - int(w.ctl.Stats().Confirmed); held > 5 || len(slow.running) != 1 {
		t.Fatalf("%d jobs wait behind the slow worker, whose window is 5", held)
	}
	// B-109: what it has not started went back, for the others are idle.
	w.equal("confirmed", w.ctl.Stats().Confirmed, 999)
	w.equal("fast ones", len(fast[0].starts)+len(fast[1].starts)+len(fast[2].starts), 999)
	w.equal("attempts", w.ctl.Stats().Nacked, 0)
}

func TestB109_UnstartedJobsAreRecalledForAnIdleWorker(t *testing.T) {
	w, a, _ := withJobs(t, 10, nil)
	b := w.worker("b", nil)
	w.advance(4 * time.Second)
	if len(b.running) != 1 {
		t.Fatal("the idle worker got nothing")
	}
	st := w.ctl.Stats()
	if n := st.Bindings[1].InFlight; n < 3 || n > 7 {
		t.Fatalf("the idle worker holds %d of 10 jobs", n)
	}
	w.equal("all in flight", st.InFlight, 10)
	w.equal("running on a", len(a.running), 1)
	for _, d := range b.starts {
		w.equal("attempt", d.Attempt, 1)
	}
	handedBack := st.HandedBack
	w.advance(time.Minute)
	if again := w.ctl.Stats().HandedBack - handedBack; again > 0 {
		t.Fatalf("%d more jobs were moved between two busy workers", again)
	}
}

func TestB110_IdleIsQuiet(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil)
	p := w.producer(1)
	w.advance(time.Minute)
	grants, sent, received, writes := len(p.grants), len(a.sent), len(a.received), len(w.batches)
	steps := 0
	w.fromWorker = func(*testWorker, protocol.FromWorker) bool { steps++; return true }
	w.advance(10 * time.Minute)
	if n := len(p.grants) - grants; n > 25 {
		t.Fatalf("%d grants repeated in ten idle minutes", n)
	}
	if n := len(a.sent) - sent; n > 400 { // a heartbeat each 2 s, and the odd resend request
		t.Fatalf("%d messages of an idle worker in ten minutes", n)
	}
	if n := len(a.received) - received; n > 350 {
		t.Fatalf("%d messages to an idle worker in ten minutes", n)
	}
	w.equal("queue writes", len(w.batches)-writes, 0)
	w.equal("of them before, for the worker that joined", writes, 1)
}

func TestB111_ManyWorkersRegisterAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 500 {
		w.worker(fmt.Sprint("worker", i), nil).serve(confirmAll)
	}
	w.equal("bound", len(w.ctl.Stats().Bindings), 500)
	w.equal("time passed", w.now, Now(0))
	w.submit(w.producer(1000), "", 1000)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 1000)
}

func TestNoDemandBeforeTheAppAnswers(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil)
	a.disconnect()
	a.step(AppReady{false})
	a.connect()
	b := w.incarnation("b", "boot", nil)
	b.step(AppReady{false})
	w.equal("registered", a.cons.Status(w.now).Registered, true)
	w.run()
	// What was demanded before the app went away comes back untouched.
	w.submit(w.producer(200), "", 150)
	w.equal("started", len(a.starts)+len(b.starts), 0)
	w.equal("backlog", w.ctl.Stats().BacklogJobs, 150)
	w.equal("uncounted", w.job("1").uncounted+w.job("1").attempts, 0)
	a.step(AppReady{true})
	a.serve(confirmAll)
	w.advance(time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 150)
}

func TestMemoryBudgetLeavesPayloadsInTheStore(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MemoryBytes = 200 })
	w.submit(w.producer(100), "", 500)
	if st := w.ctl.Stats(); st.MemoryBytes > 200 || st.BacklogJobs != 500 {
		t.Fatalf("%d bytes in memory, %d jobs", st.MemoryBytes, st.BacklogJobs)
	}
	a := w.worker("a", func(c *ConsumerConfig) { c.Window = 20 }).serve(confirmAll)
	w.advance(time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 500)
	w.equal("first", a.order[:3], []string{"1", "2", "3"})
	if w.reads == 0 || w.reads > 250 {
		t.Fatalf("%d reads for 500 jobs", w.reads)
	}
}

func TestResendReadsAPayloadBack(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MemoryBytes = 1 })
	a := w.worker("a", nil)
	drop := true
	w.toWorker = func(_ *testWorker, m protocol.ToWorker) bool {
		_, sequenced := m.(protocol.SequencedMessage)
		return !sequenced || !drop
	}
	w.submit(w.producer(10), "", 3)
	w.equal("started", len(a.starts), 0)
	drop = false
	w.advance(3 * time.Second)
	a.serve(confirmAll)
	w.equal("order", a.order, []string{"1", "2", "3"})
}

func TestAReloadedBacklogIsServedInOrder(t *testing.T) {
	w := newWorld(t, nil)
	w.submit(w.producer(1000), "", 700)
	w.boot(nil)
	w.equal("backlog", w.ctl.Stats().BacklogJobs, 700)
	w.equal("memory", w.ctl.Stats().MemoryBytes, 0)
	a := w.worker("a", nil).serve(confirmAll)
	w.advance(time.Second)
	for i, id := range a.order {
		w.equal("order", id, fmt.Sprint(i+1))
	}
	w.equal("confirmed", w.ctl.Stats().Confirmed, 700)
}
