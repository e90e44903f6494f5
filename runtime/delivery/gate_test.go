package delivery

import (
	"slices"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// Reloaded jobs wait for the known workers, or for one liveness period; what is stored meanwhile does not.
func TestReloadedJobsWaitForTheKnownWorkers(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(10)
	a, b := w.worker("a", nil), w.worker("b", nil)
	w.submit(p, "", 6)
	w.restart()
	a.connect()
	w.equal("awaited", w.ctl.Stats().AwaitedWorkers, 1)
	w.equal("adopted alone", w.ctl.Stats().InFlight, 1)
	w.submit(w.producer(10), "new", 1)
	w.equal("a new job passes", w.ctl.Stats().InFlight, 2)
	w.advance(9 * time.Second)
	w.equal("still awaited", w.ctl.Stats().AwaitedWorkers, 1)
	b.connect()
	w.equal("awaited", w.ctl.Stats().AwaitedWorkers, 0)
	w.equal("everything goes", w.ctl.Stats().InFlight, 7)
	a.serve(confirmAll)
	b.serve(confirmAll)
	w.advance(time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 7)
	w.equal("starts", len(a.starts)+len(b.starts), 7)
}

func TestGateOpensAfterOneLivenessPeriod(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(10)
	a, b := w.worker("a", nil), w.worker("b", nil)
	w.submit(p, "", 2)
	b.dead = true
	w.restart()
	a.connect()
	a.serve(confirmAll)
	w.advance(9900 * time.Millisecond)
	w.equal("held back", w.ctl.Stats().BacklogJobs, 1)
	w.advance(200 * time.Millisecond)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 2)
}

func TestGateOpensWhenTheLastAwaitedPodIsGone(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(10)
	a, b := w.worker("a", nil), w.worker("b", nil)
	w.submit(p, "", 2)
	b.dead = true
	w.restart()
	a.connect()
	w.equal("held back", w.ctl.Stats().BacklogJobs, 1)
	w.step(WorkerGone{PodUID: "b", BootNonce: "b-boot-1", Reason: "its process is over"})
	w.equal("the pod may come back", w.ctl.Stats().AwaitedWorkers, 1)
	w.step(WorkerGone{PodUID: "b", Reason: "deleted"})
	w.run()
	w.equal("in flight", w.ctl.Stats().InFlight, 2)
}

func TestPausedProducerGrantsTheAwaitedAnotherPeriod(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(10)
	w.worker("a", nil)
	w.submit(p, "", 1)
	w.restart()
	w.now += 30 * time.Second
	w.step(Paused{For: 30 * time.Second})
	w.equal("still awaited", w.ctl.Stats().AwaitedWorkers, 1)
	w.advance(10 * time.Second)
	w.equal("awaited", w.ctl.Stats().AwaitedWorkers, 0)
}

// A pause never shortens the wait, not even when the deadline was made shorter meanwhile: a worker that is away may count on the old one.
func TestPauseNeverShortensTheWait(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(10)
	w.worker("a", nil)
	w.submit(p, "", 1)
	w.restart()
	shorter := DefaultControllerConfig()
	shorter.Heartbeat, shorter.Deadline = 500*time.Millisecond, 2*time.Second
	w.step(Reconfigure{Config: shorter})
	w.advance(5 * time.Second)
	w.step(Paused{For: time.Second})
	w.advance(4 * time.Second)
	w.equal("still awaited", w.ctl.Stats().AwaitedWorkers, 1)
	w.advance(2 * time.Second)
	w.equal("awaited", w.ctl.Stats().AwaitedWorkers, 0)
}

// Without known workers nothing waits, and neither does a queue without jobs.
func TestNobodyIsAwaitedWithoutNeed(t *testing.T) {
	w := newWorld(t, nil)
	w.submit(w.producer(10), "", 1)
	w.restart()
	w.equal("awaited without known workers", w.ctl.Stats().AwaitedWorkers, 0)
	a := w.worker("a", nil).serve(confirmAll)
	w.advance(time.Second)
	w.restart()
	w.equal("awaited without jobs", w.ctl.Stats().AwaitedWorkers, 0)
	_ = a
}

// A worker that this very process has seen leaving is not awaited by its reload.
func TestReloadAwaitsNobodyWhoLeft(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(10)
	a, b := w.worker("a", nil), w.worker("b", nil)
	w.submit(p, "", 2)
	b.kill()
	w.equal("the list is not written for that", len(w.batches[len(w.batches)-1].Workers), 0)
	fails := 3
	w.applyErr = func(batch queue.Batch) error {
		if len(batch.Stores) > 0 && fails > 0 {
			fails--
			return errFlaky
		}
		return nil
	}
	w.toWorker = func(*testWorker, protocol.ToWorker) bool { return false } // a does not hear that it must come back
	p.submit(newJob("3"))
	for w.loads < 2 {
		w.advance(50 * time.Millisecond)
	}
	w.run()
	w.equal("awaited", w.ctl.Stats().AwaitedWorkers, 1)
	_ = a
}

// The list of workers is written when a pod joins, and otherwise only with something else (B-110, B-167).
func TestKnownWorkersAreWrittenWhenTheyGrow(t *testing.T) {
	w := newWorld(t, nil)
	writes := func() (n int) {
		for _, b := range w.batches {
			if b.Workers != nil {
				n++
			}
		}
		return n
	}
	known := func() []protocol.Incarnation {
		for _, b := range slices.Backward(w.batches) {
			if b.Workers != nil {
				return b.Workers
			}
		}
		return nil
	}
	a, b := w.worker("a", nil), w.worker("b", nil)
	w.equal("one for each that joined", writes(), 2)
	w.equal("known", known(), []protocol.Incarnation{a.inc, b.inc})
	b.disconnect()
	b.connect()
	w.equal("none for one that came back", writes(), 2)
	batches := len(w.batches)
	b.kill()
	w.advance(time.Minute)
	w.equal("none for one that left", len(w.batches), batches)
	w.submit(w.producer(10), "", 1)
	w.equal("it leaves the list along with the next write", known(), []protocol.Incarnation{a.inc})
	a.dead = true
	a.disconnect()
	again := w.incarnation("a", "a-boot-2", nil)
	n := writes()
	w.equal("none for another process of a known pod", n, 3)
	again.serve(confirmAll)
	w.advance(time.Second)
	w.equal("it joins along with the next write", known(), []protocol.Incarnation{again.inc})
}

// A list that cannot be written is tried again, and nothing else suffers for it.
func TestKnownWorkersAreWrittenInTheEnd(t *testing.T) {
	w := newWorld(t, nil)
	fails := 5
	w.applyErr = func(b queue.Batch) error {
		if b.Workers != nil && fails > 0 {
			fails--
			return errFlaky
		}
		return nil
	}
	a := w.worker("a", nil)
	w.advance(time.Minute)
	w.equal("left to fail", fails, 0)
	w.equal("written", w.batches[len(w.batches)-1].Workers, []protocol.Incarnation{a.inc})
	w.equal("loads", w.loads, 1)
	w.equal("credit", w.ctl.Stats().CreditWithheld, false)
	w.equal("tries", len(w.batches), 6)
}

// A worker that is awaited stays on the list: should the producer die again meanwhile, the next one waits for it as well.
func TestAwaitedWorkersStayKnown(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(10)
	a := w.worker("a", nil)
	p.submit(newJob("1"))
	w.restart()
	b := w.worker("b", nil) // joins, and the list is written
	w.restart()
	b.connect()
	b.serve(confirmAll)
	w.equal("awaited", w.ctl.Stats().AwaitedWorkers, 1)
	w.advance(5 * time.Second)
	a.connect()
	w.equal("adopted", w.ctl.Stats().Adopted, 1)
	w.equal("starts", len(b.starts), 0)
}

// Jobs that wait behind the gate keep their order and their memory budget when it opens.
func TestGateKeepsOrderAndBudget(t *testing.T) {
	edit := func(c *ControllerConfig) { c.MemoryBytes = 100 }
	w := newWorld(t, edit)
	p := w.producer(100)
	a := w.worker("a", func(c *ConsumerConfig) { c.Window = 1 })
	w.worker("gone", func(c *ConsumerConfig) { c.Window = 1 }).dead = true
	w.submit(p, "", 30)
	w.boot(edit)
	a.connect()
	w.submit(w.producer(100), "new", 20)
	w.advance(11 * time.Second)
	a.serve(confirmAll)
	w.advance(30 * time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 50)
	last := int64(0)
	for _, d := range a.starts {
		if d.StoreSeq > 30 {
			continue
		}
		if d.StoreSeq < last {
			t.Fatalf("%d starts after %d", d.StoreSeq, last)
		}
		last = d.StoreSeq
	}
	w.equal("bytes in memory", w.ctl.Stats().MemoryBytes, 0)
	w.equal("first", a.order[0], "1")
}
