package delivery

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// spoil edits every delivery of a job on its way to the workers named; to all if none is.
func (w *world) spoil(id string, edit func(*protocol.Delivery), workers ...string) {
	w.toWorker = func(tw *testWorker, m protocol.ToWorker) bool {
		frame, ok := m.(protocol.SequencedMessage)
		if !ok || len(workers) > 0 && !slices.Contains(workers, tw.name) {
			return true
		}
		for i := range frame.Deliveries {
			if d := &frame.Deliveries[i]; d.Job.MessageID == id {
				edit(d)
			}
		}
		return true
	}
}

// B-200, B-201: an envelope that breaks a limit is refused alone. The others of its frame run at once, the binding goes
// on, and its job becomes a dead letter when its attempts are used up.
func TestB200_B201_InadmissibleDeliveryIsRefusedAlone(t *testing.T) {
	for name, edit := range map[string]func(*protocol.Delivery){
		"no id":              func(d *protocol.Delivery) { d.Job.MessageID = "" },
		"id of 257 bytes":    func(d *protocol.Delivery) { d.Job.MessageID = strings.Repeat("x", 257) },
		"NUL in the id":      func(d *protocol.Delivery) { d.Job.MessageID = "a\x00" },
		"id is no UTF-8":     func(d *protocol.Delivery) { d.Job.MessageID = "\xff" },
		"no payload":         func(d *protocol.Delivery) { d.Job.Payload = nil },
		"payload too large":  func(d *protocol.Delivery) { d.Job.Payload = make([]byte, protocol.MaxPayloadBytes+1) },
		"impossible header":  func(d *protocol.Delivery) { d.Job.Headers = map[string]string{"A B": ""} },
		"attempt 0":          func(d *protocol.Delivery) { d.Attempt = 0 },
		"store sequence 0":   func(d *protocol.Delivery) { d.StoreSeq = 0 },
		"store sequence end": func(d *protocol.Delivery) { d.StoreSeq = math.MaxInt64 },
		"broken":             func(d *protocol.Delivery) { d.Broken = "the ticket has 1 bytes" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *ControllerConfig) { c.MaxAttempts = 3 })
			a := w.worker("a", func(c *ConsumerConfig) { c.Concurrency = 3 }).serve(confirmAll)
			binding := a.ref()
			w.spoil("2", edit)
			w.submit(w.producer(10), "", 3)
			w.equal("at once", a.order, []string{"1", "3"})
			w.advance(time.Minute)
			s, cs := w.ctl.Stats(), a.cons.Status(w.now)
			w.equal("order", a.order, []string{"1", "3"})
			w.equal("confirmed, dead", []uint64{s.Confirmed, uint64(s.DeadLetters)}, []uint64{2, 1})
			w.equal("in flight, unsettled", []int{s.InFlight, cs.Unsettled}, []int{0, 0})
			w.equal("refused", cs.Dropped, map[string]uint64{"inadmissible": 3})
			w.equal("binding", a.ref(), binding)
			if last := w.settled[len(w.settled)-1]; last.Ref.MessageID != "2" || !last.DeadLettered || !strings.Contains(last.Reason, "refused by the worker") {
				t.Errorf("settled last: %+v", last)
			}
			w.toWorker = nil
			w.submit(w.producer(10), "later", 2)
			w.equal("works on", len(a.order), 4)
		})
	}
}

// One worker that cannot take a job, such as one of an older version, does not keep it from the others.
func TestRefusedDeliveryIsServedToAnother(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.worker("a", nil).serve(confirmAll), w.worker("b", nil).serve(confirmAll)
	w.spoil("1", func(d *protocol.Delivery) { d.Broken = "from the future" }, "a")
	w.submit(w.producer(10), "", 1)
	w.advance(time.Minute)
	w.equal("ran on", [][]string{a.order, b.order}, [][]string{nil, {"1"}})
	w.equal("attempt", b.starts[0].Attempt, 2)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
}

// A refusal that was lost is repeated until the controller has taken it over.
func TestLostRefusalIsRepeated(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil).serve(confirmAll)
	w.spoil("1", func(d *protocol.Delivery) { d.Broken = "odd" })
	w.fromWorker = func(_ *testWorker, m protocol.FromWorker) bool {
		_, ack := m.(protocol.Ack)
		return !ack
	}
	w.submit(w.producer(10), "", 2)
	w.equal("runs behind it", a.order, []string{"2"})
	w.equal("in flight", w.ctl.Stats().InFlight, 2)
	w.fromWorker, w.toWorker = nil, nil
	w.advance(time.Minute)
	w.equal("order", a.order, []string{"2", "1"})
	w.equal("attempts", a.starts[1].Attempt, 2)
}

// admission comes first, so a spoiled repeat of what is known gets no answer, least of all that of the run.
func TestA020_SpoiledRepeatIsNotAnswered(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil)
	w.fromWorker = func(_ *testWorker, m protocol.FromWorker) bool {
		_, ack := m.(protocol.Ack)
		return !ack
	}
	w.submit(w.producer(10), "", 2)
	a.finish("1", protocol.Confirmed)
	w.now += time.Second
	a.tick()
	said, repeat := len(a.sent), frameOf(a.ref(), 1, 2)
	for i := range repeat.Deliveries {
		repeat.Deliveries[i].Job.Payload = nil
	}
	a.hear(repeat)
	w.equal("answers", len(a.sent), said)
	w.equal("running", len(a.running), 1)
	w.equal("refused", a.cons.Status(w.now).Dropped["inadmissible"], 2)
}

// A refusal speaks for its sequence alone, and only as long as that is open: it ends no job that another word has ended.
func TestRefusalCountsOnceAndForItsSequence(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", func(c *ConsumerConfig) { c.Concurrency = 2 })
	w.submit(w.producer(10), "", 2)
	refuse := func(ref protocol.BindingRef, seq int64) {
		a.inject(protocol.Ack{BindingRef: ref, StartedSeq: 2, Settlements: []protocol.Settlement{{WorkerSeq: seq, Outcome: protocol.Inadmissible}}})
	}
	guessed := a.ref()
	guessed.Secret = "guessed"
	refuse(guessed, 1)
	w.equal("in flight after a forged one", w.ctl.Stats().InFlight, 2)
	refuse(a.ref(), 1)
	refuse(a.ref(), 1)
	w.equal("in flight after a repeated one", w.ctl.Stats().InFlight, 1)
	a.finish("2", protocol.Confirmed)
	w.advance(10 * time.Millisecond)
	refuse(a.ref(), 2)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
	refuse(a.ref(), 3)
	w.equal("violations", w.ctl.Stats().Dropped["protocol-violation"], 1)
}
