package delivery

import (
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/memory"
)

// Another endpoint of the same flow cannot speak for this one, whatever it has overheard.
func TestB008_AnotherEndpointCannotAcknowledge(t *testing.T) {
	w := newWorld(t, nil)
	p, stranger := w.producer(1), w.producer(1)
	p.mute = true
	p.submit(newJob("x"))
	stranger.send(protocol.StoredAck{Session: p.session, Token: 1, MessageID: "x"}, queue.Digest{})
	w.run()
	w.equal("counted", w.ctl.Stats().Dropped["unexpected-stored-ack"], 1)
	w.step(ProducerMessage{Conn: 9999, Message: protocol.StoredAck{Session: p.session, Token: 1, MessageID: "x"}})
	w.run()
	w.equal("counted", w.ctl.Stats().Dropped["unknown-endpoint"], 1)
	state, _, _ := w.queue.Lookup(t.Context(), "x")
	w.equal("accepted", state.Accepted, false)
	told := len(p.stored)
	w.advance(time.Second)
	w.equal("still repeated", len(p.stored) > told, true)
}

// The app restarts beside a living sidecar: its new process has a stream and grants of its own, and learns with its repeat that
// the job of the old one is stored.
func TestB015_NewProcessLearnsWhatTheOldOneStored(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.BacklogJobs, c.BacklogBytes = 1, 0 })
	w.worker("a", nil)
	p := w.producer(1)
	p.mute = true
	p.submit(newJob("x"))
	w.step(ProducerDetached{p.conn})
	q := w.producer(1)
	q.submit(newJob("x"))
	w.equal("told", []any{len(q.stored), q.stored[0].Verdict, q.stored[0].StoreSeq}, []any{1, protocol.AlreadyStored, 1})
	state, _, _ := w.queue.Lookup(t.Context(), "x")
	w.equal("accepted", state.Accepted, true)
}

// Notices are a courtesy: an endpoint that is gone, or whose stream takes nothing any more, harms nobody.
func TestB151_NobodyToNotifyIsNoFault(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.DeliveryConfirmation = true })
	gone, stays := w.producer(10), w.producer(10)
	w.submit(gone, "of the one that goes ", 3)
	w.step(ProducerDetached{gone.conn})
	delete(w.prods, gone.conn)
	w.submit(stays, "", 3)
	w.worker("a", nil).serve(confirmAll)
	w.advance(time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 6)
	w.equal("notices", len(stays.confirmed), 6)
	w.equal("failed", len(w.failed), 0)
}

// A queue in memory forgets everything with its process: the flow goes on at sequence 1 under a new session, and workers bind again.
func TestB032_VolatileFlowStartsAgainAtOne(t *testing.T) {
	w, a, _ := withJobs(t, 5, nil)
	session, ref := w.ctl.Stats().Session, a.ref()
	q, err := memory.New(memory.Options{DeduplicationWindow: time.Hour, Clock: func() time.Time { return time.Unix(0, 0) }})
	w.equal("new queue", err, nil)
	w.queue = q
	w.boot(nil)
	a.connect()
	p := w.producer(10)
	w.submit(p, "after ", 2)
	w.advance(15 * time.Second)
	w.equal("sequence", p.stored[0].StoreSeq, 1)
	if w.ctl.Stats().Session == session || a.ref() == ref {
		t.Fatal("the old session goes on")
	}
	a.finish("1", protocol.Confirmed) // of a job that nobody knows any more
	w.equal("confirmed by it", w.ctl.Stats().Confirmed, 0)
	a.serve(confirmAll)
	w.advance(15 * time.Second)
	w.equal("order", a.order, []string{"1", "after 1", "after 2"})
	w.equal("confirmed", w.ctl.Stats().Confirmed, 2)
	w.equal("failed", len(w.failed), 0)
}

// A watermark that was overtaken on its way says nothing new, and one without anything to cut just advances (G-107).
func TestG107_OldWatermarkIsIgnored(t *testing.T) {
	w, a, _ := withJobs(t, 3, nil)
	a.finish("1", protocol.Confirmed)
	a.finish("2", protocol.Confirmed)
	w.advance(10 * time.Millisecond)
	ref := a.ref()
	for _, confirmed := range []int64{0, 1, 2, 2} {
		a.inject(protocol.Request{BindingRef: ref, ConfirmedSeq: confirmed, RequestUpTo: 50, StartedSeq: 3})
	}
	w.equal("in flight", w.ctl.Stats().InFlight, 1)
	w.equal("binding", a.ref(), ref)
	w.equal("violations", w.ctl.Stats().Dropped[string(protocol.RefusedViolation)], 0)
}
