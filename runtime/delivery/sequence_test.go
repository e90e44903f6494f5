package delivery

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// lose drops the first delivery of a worker sequence.
func (w *world) lose(seqs ...int64) {
	lost := map[int64]bool{}
	for _, s := range seqs {
		lost[s] = true
	}
	w.toWorker = func(tw *testWorker, m protocol.ToWorker) bool {
		frame, ok := m.(protocol.SequencedMessage)
		if !ok {
			return true
		}
		kept := protocol.SequencedMessage{BindingID: frame.BindingID}
		for _, d := range frame.Deliveries {
			if lost[d.WorkerSeq] {
				delete(lost, d.WorkerSeq)
				continue
			}
			kept.Deliveries = append(kept.Deliveries, d)
		}
		if len(kept.Deliveries) == len(frame.Deliveries) {
			return true
		}
		conn := tw.conn
		w.later(func() { tw.receive(conn, kept) })
		return false
	}
}

func (tw *testWorker) resendRequests() (n int) {
	for _, m := range tw.sent {
		if r, ok := m.(protocol.Request); ok && r.ViaTimeout {
			n++
		}
	}
	return n
}

func TestB120_LostDeliveryIsAskedForAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil).serve(confirmAll)
	asked := a.resendRequests()
	w.lose(2)
	w.submit(w.producer(10), "", 5)
	w.equal("order", a.order, []string{"1", "2", "3", "4", "5"})
	w.equal("resend requests", a.resendRequests()-asked, 1)
	w.equal("time passed", w.now, Now(0))
	w.equal("redelivered", w.ctl.Stats().Redelivered, 0)
}

func TestB121_OneResendRequestPerInterval(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", func(c *ConsumerConfig) { c.Window = 200 }).serve(confirmAll)
	w.toWorker = func(_ *testWorker, m protocol.ToWorker) bool {
		frame, ok := m.(protocol.SequencedMessage)
		return !ok || frame.Deliveries[0].WorkerSeq != 1
	}
	asked := a.resendRequests()
	p := w.producer(1)
	for i := range 100 {
		p.submit(newJob(fmt.Sprint(i + 1)))
	}
	w.equal("resend requests", a.resendRequests()-asked, 1)
	w.equal("started", len(a.starts), 0)
	w.toWorker = nil
	w.advance(2 * time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 100)
	w.equal("first", a.order[:3], []string{"1", "2", "3"})
}

func frameOf(ref protocol.BindingRef, seqs ...int64) protocol.SequencedMessage {
	m := protocol.SequencedMessage{BindingID: ref.BindingID}
	for _, s := range seqs {
		m.Deliveries = append(m.Deliveries, protocol.Delivery{WorkerSeq: s, StoreSeq: s, Attempt: 1, Job: newJob(fmt.Sprint(s))})
	}
	return m
}

func (tw *testWorker) hear(m protocol.ToWorker) {
	tw.step(FromController{tw.conn, m})
}

func TestB122_ReorderedDeliveriesStartInOrder(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", func(c *ConsumerConfig) { c.Concurrency = 3 })
	a.hear(frameOf(a.ref(), 1))
	a.hear(frameOf(a.ref(), 3))
	w.equal("before the gap closes", a.order, []string{"1"})
	a.hear(frameOf(a.ref(), 2))
	w.equal("order", a.order, []string{"1", "2", "3"})
}

func TestB123_DuplicatesRunNothing(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil)
	w.submit(w.producer(10), "", 2)
	a.hear(frameOf(a.ref(), 1)) // of the running one
	w.equal("started", len(a.starts), 1)
	a.finish("1", protocol.Confirmed)
	a.finish("2", protocol.Confirmed)
	w.advance(time.Second)
	acks := len(a.sent)
	a.hear(frameOf(a.ref(), 1, 2)) // of confirmed ones, which the controller has taken over
	w.equal("started", len(a.starts), 2)
	w.equal("answers", len(a.sent), acks)
	w.equal("duplicates", a.cons.Status(w.now).Duplicates, 3)
}

func TestB124_B201_DeliveriesWithoutAPlaceAreDropped(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", func(c *ConsumerConfig) { c.Window = 5 })
	for _, m := range []protocol.SequencedMessage{
		frameOf(a.ref(), 0), frameOf(a.ref(), -1), frameOf(a.ref(), 6), frameOf(a.ref(), math.MaxInt64), frameOf(a.ref(), math.MinInt64),
		frameOf(protocol.BindingRef{BindingID: "stranger"}, 1),
	} {
		a.hear(m)
	}
	st := a.cons.Status(w.now)
	w.equal("held", st.Unsettled, 0)
	w.equal("started", len(a.starts), 0)
	w.equal("dropped", st.Dropped, map[string]uint64{"inadmissible": 4, "beyond-demand": 1, "unknown-binding": 1})
	w.submit(w.producer(1), "", 1)
	w.equal("works on", a.order, []string{"1"})
}

func TestB125_FullBufferDropsTheArrivingOne(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", func(c *ConsumerConfig) { c.Window = 3 })
	a.cons.sub.demand = 10 // as if the window had been larger when it was asked for
	a.hear(frameOf(a.ref(), 1, 2, 3, 4))
	st := a.cons.Status(w.now)
	w.equal("held", st.Unsettled, 3)
	w.equal("dropped", st.Dropped["buffer-full"], 1)
}

func TestB126_LostTailIsFoundByTheTick(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil).serve(confirmAll)
	w.advance(10 * time.Minute) // idle: the tick has slowed down
	w.submit(w.producer(10), "early", 3)
	w.lose(4, 5)
	w.submit(w.producer(10), "", 2)
	w.equal("started", len(a.starts), 3)
	w.advance(4 * time.Second)
	w.equal("started within two intervals", len(a.starts), 5)
}

func TestB127_ResendStaysWithinTheDemand(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", func(c *ConsumerConfig) { c.Window = 10 })
	w.submit(w.producer(10), "", 5)
	a.received = nil
	a.inject(protocol.Request{BindingRef: a.ref(), RequestUpTo: 3, StartedSeq: 0, ViaTimeout: true})
	var again []int64
	for _, m := range a.received {
		if m, ok := m.(protocol.SequencedMessage); ok {
			for _, d := range m.Deliveries {
				again = append(again, d.WorkerSeq)
			}
		}
	}
	w.equal("resent", again, []int64{1, 2, 3})
}

func TestB129_OldBindingIsDroppedAfterAProducerRestart(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil)
	old := a.ref()
	w.boot(nil)
	a.connect()
	if a.ref() == old {
		t.Fatal("the binding survived a session")
	}
	a.hear(frameOf(old, 1))
	a.hear(protocol.BindingEnded{BindingID: old.BindingID})
	a.hear(protocol.SettledAck{BindingID: old.BindingID, UpTo: 7})
	w.equal("dropped", a.cons.Status(w.now).Dropped["unknown-binding"], 3)
	w.equal("started", len(a.starts), 0)
}

func TestFramesCarrySeveralDeliveriesAndAreBounded(t *testing.T) {
	w := newWorld(t, func(c *ControllerConfig) { c.MaxFrameBytes = 60 })
	w.submit(w.producer(10), "", 9) // 12 bytes each
	a := w.worker("a", nil)
	var sizes []int
	for _, m := range a.received {
		if m, ok := m.(protocol.SequencedMessage); ok {
			sizes = append(sizes, len(m.Deliveries))
		}
	}
	w.equal("frames", sizes, []int{5, 4})
}
