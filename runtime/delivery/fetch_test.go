package delivery

import (
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

func TestReadsAreRetried(t *testing.T) {
	w := newWorld(t, nil)
	w.submit(w.producer(100), "", 20)
	w.boot(nil)
	w.readErr = func() error { return errFlaky }
	a := w.worker("a", nil).serve(confirmAll)
	w.advance(time.Minute)
	if w.reads < 4 || w.reads > 20 {
		t.Fatalf("%d reads in a failing minute", w.reads)
	}
	w.equal("error", w.ctl.Stats().QueueError, errFlaky.Error())
	w.readErr = nil
	w.advance(time.Minute)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 20)
	w.equal("error", w.ctl.Stats().QueueError, "")
	w.equal("first", a.order[0], "1")
}

func TestAReadInFlightHoldsNobodyUp(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(100)
	w.submit(p, "", 20)
	w.boot(nil)
	w.holdReads = true
	a := w.worker("a", func(c *ConsumerConfig) { c.Window = 30 }).serve(confirmAll)
	w.equal("started", len(a.starts), 0)
	w.submit(w.producer(100), "fresh", 5) // payload in memory, and demand is left
	w.advance(10 * time.Millisecond)
	w.equal("started meanwhile", len(a.starts), 5)
	w.equal("oldest", w.ctl.Stats().OldestBacklogStoreSeq, 1)
	w.release()
	w.advance(time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 25)
}

// A worker dies while a payload is read for its resend: the job is requeued and asks again, and must not be dispatched twice.
func TestBindingEndsDuringARead(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MemoryBytes = 1 })
	a := w.worker("a", nil)
	a.step(AppReady{false})
	w.lose(1, 2, 3)
	w.submit(w.producer(10), "", 3)
	w.toWorker = nil
	w.holdReads = true
	w.advance(3 * time.Second) // the tick asks for a resend, which needs the payloads
	w.equal("reads", w.reads > 0, true)
	a.kill()
	b := w.worker("b", nil).serve(confirmAll)
	w.equal("started", len(b.starts), 0)
	w.release()
	w.advance(time.Second)
	w.equal("order", b.order, []string{"1", "2", "3"})
	w.equal("confirmed", w.ctl.Stats().Confirmed, 3)
}

// Many jobs come back at once when many workers are lost. Those whose payloads had no room in memory stay in the store until their
// turn is near: the budget holds, but for what a worker waits for.
func TestJobsThatComeBackDoNotFillTheMemory(t *testing.T) {
	const jobs, window = 300, 10
	w := newWorld(t, func(c *ControllerConfig) { c.MemoryBytes = 500 })
	lost := make([]*testWorker, 3)
	for i := range lost {
		lost[i] = w.worker(string(rune('a'+i)), func(c *ConsumerConfig) { c.Window, c.Concurrency = jobs, jobs })
		lost[i].serve(func(protocol.Delivery) protocol.Outcome { return 0 })
	}
	w.submit(w.producer(jobs), "", jobs)
	w.equal("in flight", w.ctl.Stats().InFlight, jobs)
	size := int64(len(newJob("1").Payload))
	last := w.worker("z", func(c *ConsumerConfig) { c.Window, c.Concurrency = window, window })
	last.serve(func(protocol.Delivery) protocol.Outcome { return 0 })
	for _, a := range lost {
		a.kill()
	}
	w.advance(time.Minute)
	if st := w.ctl.Stats(); st.MemoryBytes > 500+window*size || st.InFlight != window {
		t.Fatalf("%d payload bytes of %d are in memory and %d jobs in flight", st.MemoryBytes, jobs*size, st.InFlight)
	}
	last.serve(confirmAll)
	w.advance(10 * time.Minute)
	w.equal("confirmed", w.ctl.Stats().Confirmed, jobs)
}
