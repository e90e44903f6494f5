package delivery

import (
	"testing"
	"time"
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
