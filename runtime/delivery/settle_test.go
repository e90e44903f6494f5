package delivery

import (
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

func (tw *testWorker) settles(seq int64, id string, attempt int, outcome protocol.Outcome) {
	tw.inject(protocol.Ack{BindingRef: tw.ref(), StartedSeq: seq, Settlements: []protocol.Settlement{
		{WorkerSeq: seq, MessageID: id, Attempt: attempt, Outcome: outcome},
	}})
}

func TestB140_SecondConfirmDoesNotConfirmTheNext(t *testing.T) {
	w, a, _ := withJobs(t, 3, nil)
	a.settles(1, "1", 1, protocol.Confirmed)
	a.settles(1, "1", 1, protocol.Confirmed)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
	w.equal("in flight", w.ctl.Stats().InFlight, 2)
}

func TestB141_NothingMismatchedCounts(t *testing.T) {
	for _, tc := range []struct {
		name   string
		m      func(ref, other protocol.BindingRef) protocol.Ack
		reason string
	}{
		{"wrong sequence", func(ref, _ protocol.BindingRef) protocol.Ack {
			return protocol.Ack{BindingRef: ref, Settlements: []protocol.Settlement{{WorkerSeq: 2, MessageID: "1", Attempt: 1, Outcome: protocol.Confirmed}}}
		}, "settlement-mismatch"},
		{"wrong attempt", func(ref, _ protocol.BindingRef) protocol.Ack {
			return protocol.Ack{BindingRef: ref, Settlements: []protocol.Settlement{{WorkerSeq: 1, MessageID: "1", Attempt: 2, Outcome: protocol.Confirmed}}}
		}, "settlement-mismatch"},
		{"unknown outcome", func(ref, _ protocol.BindingRef) protocol.Ack {
			return protocol.Ack{BindingRef: ref, Settlements: []protocol.Settlement{{WorkerSeq: 1, MessageID: "1", Attempt: 1, Outcome: 77}}}
		}, "settlement-mismatch"},
		{"B-142 another worker's binding", func(_, other protocol.BindingRef) protocol.Ack {
			return protocol.Ack{BindingRef: other, Settlements: []protocol.Settlement{{WorkerSeq: 1, MessageID: "1", Attempt: 1, Outcome: protocol.Confirmed}}}
		}, string(protocol.RefusedUnknownBinding)},
		{"wrong secret", func(ref, other protocol.BindingRef) protocol.Ack {
			ref.Secret = other.Secret
			return protocol.Ack{BindingRef: ref, Settlements: []protocol.Settlement{{WorkerSeq: 1, MessageID: "1", Attempt: 1, Outcome: protocol.Confirmed}}}
		}, string(protocol.RefusedUnknownBinding)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, a, _ := withJobs(t, 3, nil)
			b := w.worker("b", nil)
			a.inject(tc.m(a.ref(), b.ref()))
			w.equal("confirmed", w.ctl.Stats().Confirmed, 0)
			w.equal("in flight", w.ctl.Stats().InFlight, 3)
			w.equal("counted", w.ctl.Stats().Dropped[tc.reason], 1)
			w.equal("batches of confirms", confirmsIn(w.batches), 0)
		})
	}
}

func confirmsIn(batches []queue.Batch) (n int) {
	for _, b := range batches {
		n += len(b.Confirms)
	}
	return n
}

// B-143, B-144: what a worker says for a binding that ended is ignored; the requeued copy runs.
func TestB143_LateConfirmOfAnEndedBinding(t *testing.T) {
	w, a, _ := withJobs(t, 1, nil)
	b := w.worker("b", nil)
	a.disconnect()
	w.advance(11 * time.Second)
	w.equal("runs on b", b.order, []string{"1"})
	late := protocol.Ack{BindingRef: a.ref(), StartedSeq: 1, Settlements: []protocol.Settlement{
		{WorkerSeq: 1, MessageID: "1", Attempt: 1, Outcome: protocol.Confirmed},
	}}
	a.connect()
	a.inject(late)
	w.equal("confirmed by the late word", w.ctl.Stats().Confirmed, 0)
	b.finish("1", protocol.Confirmed)
	a.inject(late)
	w.equal("confirmed once", w.ctl.Stats().Confirmed, 1)
	w.equal("settled once", len(w.settled), 1)
}

func TestB146_LostConfirmIsRepeatedNotRunAgain(t *testing.T) {
	w := newWorld(t, nil)
	lost := 0
	w.fromWorker = func(_ *testWorker, m protocol.FromWorker) bool {
		if _, ok := m.(protocol.Ack); ok && lost == 0 {
			lost++
			return false
		}
		return true
	}
	a := w.worker("a", nil).serve(confirmAll)
	w.submit(w.producer(1), "", 1)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 0)
	w.advance(2 * time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
	w.equal("started", len(a.starts), 1)
	w.equal("unsettled", a.cons.Status(w.now).Unsettled, 0)
}

// A worker may forget a confirm only when it is durable, so a producer crash re-executes no finished job whose worker lives.
func TestB147_FinishedJobsAreNotReExecutedAfterAProducerCrash(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil)
	w.submit(w.producer(10), "", 3)
	w.holdApply = true
	a.serve(confirmAll)
	w.advance(time.Second)
	w.equal("done", len(a.starts), 3)
	w.equal("not durable", w.ctl.Stats().DirtyConfirms, 3)
	w.equal("remembered by the worker", a.cons.Status(w.now).Unsettled, 3)
	w.held, w.holdApply = nil, false
	w.boot(nil)
	a.connect()
	w.advance(3 * time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 3)
	w.equal("started in all", len(a.starts), 3)
}

func TestB148_B149_NoticeFollowsDurability(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.DeliveryConfirmation = true })
	p := w.producer(10)
	a := w.worker("a", nil)
	w.submit(p, "", 3)
	w.holdApply = true
	a.serve(confirmAll)
	w.advance(10 * time.Millisecond)
	w.equal("notices before the write", len(p.confirmed), 0)
	w.equal("settled before the write", len(w.settled), 0)
	w.release()
	w.advance(10 * time.Millisecond)
	w.equal("notices", len(p.confirmed), 3)
	for i, m := range p.confirmed {
		w.equal("notice", []any{m.MessageID, m.StoreSeq}, []any{p.stored[i].MessageID, p.stored[i].StoreSeq})
	}

	off := newWorld(t, nil)
	q := off.producer(10)
	off.worker("a", nil).serve(confirmAll)
	off.submit(q, "", 3)
	off.equal("notices when off", len(q.confirmed), 0)
}

func TestSettlementsAreBatchedWithinTheDelay(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", func(c *ConsumerConfig) { c.Concurrency = 10 })
	w.submit(w.producer(20), "", 10)
	for _, id := range []string{"3", "1", "2"} {
		a.finish(id, protocol.Confirmed)
	}
	w.equal("at once", w.ctl.Stats().Confirmed, 0)
	w.advance(5 * time.Millisecond)
	w.equal("after the delay", w.ctl.Stats().Confirmed, 3)
	acks := 0
	for _, m := range a.sent {
		if _, ok := m.(protocol.Ack); ok {
			acks++
		}
	}
	w.equal("acks", acks, 1)
}

func TestReloadedConfirmsAreNotLost(t *testing.T) {
	// A confirm that waits while Store fails is still written after the reload, and its job is not dispatched again.
	w, a, p := withJobs(t, 1, nil)
	w.applyErr = func(queue.Batch) error { return errFlaky }
	a.serve(confirmAll)
	p.submit(newJob("new"))
	w.advance(2 * time.Second)
	if w.loads < 2 {
		t.Fatalf("%d loads", w.loads)
	}
	w.applyErr = nil
	w.advance(time.Minute)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 2)
	w.equal("order", a.order, []string{"1", "new"})
}

// Until a rejected job's dead letter is written, the try that rejected it is the current one: a repeat of its word is known as one.
func TestRejectedJobKeepsItsAttemptUntilItIsWritten(t *testing.T) {
	w, a, _ := withJobs(t, 1, nil)
	w.holdApply = true
	a.finish("1", protocol.Rejected)
	w.equal("attempt", w.job("1").attempt(), 1)
	a.inject(protocol.Ack{BindingRef: a.ref(), StartedSeq: 1, Settlements: []protocol.Settlement{
		{WorkerSeq: 1, MessageID: "1", Attempt: 1, Outcome: protocol.Rejected},
	}})
	w.equal("dropped", w.ctl.Stats().Dropped, map[string]uint64{"settlement-repeated": 1})
	w.release()
	w.run()
	w.equal("dead letters", w.ctl.Stats().DeadLetters, 1)
}
