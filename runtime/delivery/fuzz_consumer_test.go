package delivery

import (
	"fmt"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// FuzzConsumer plays a script of two controllers and an app that are honest, mistaken or malicious. Whatever they do, the machine must
// not panic; it runs no MessageID twice at a time, across its flows, and no more handlers than it has slots (I-9); it confirms only
// what a handler finished (I-8); and what it holds is bounded by its windows (I-12).
func FuzzConsumer(f *testing.F) {
	honest := []byte{4, 0}
	for _, op := range []byte{7, 1, 1, 2, 2, 3, 3, 0, 6, 6, 4, 0, 5, 3, 6, 0, 8, 9, 0} {
		honest = append(honest, op, 1, 0, 1)
	}
	f.Add(honest)
	for seed := range byte(8) {
		mixed := make([]byte, 300)
		for i := range mixed {
			mixed[i] = byte(i*37)*seed + byte(i>>2) + seed
		}
		f.Add(mixed)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		w := &fuzzedConsumer{
			t: t, script: script{raw[:min(len(raw), fuzzLength)]}, running: map[string]RunID{}, ids: map[RunID]string{}, succeeded: map[string]bool{},
		}
		for _, flow := range []string{"a", "b"} {
			w.flows = append(w.flows, &fuzzedFlow{name: flow, next: 1})
		}
		w.group = NewConsumerGroup(w.config(), protocol.Incarnation{PodUID: "p", BootNonce: "b"}, &testRandom{}, "a", "b")
		for w.script.more() {
			w.act()
		}
	})
}

// fuzzedFlow is a controller as the worker sees it.
type fuzzedFlow struct {
	name    string
	conn    ConnID
	nonce   string
	binding string
	next    int64
	demand  int64
	sent    []protocol.Delivery
}

type fuzzedConsumer struct {
	t         testing.TB
	script    script
	now       Now
	group     *ConsumerGroup
	flows     []*fuzzedFlow
	last      ConnID
	bindings  int
	running   map[string]RunID
	ids       map[RunID]string
	succeeded map[string]bool
	slots     int // the most ever
	window    int
	ready     bool
}

func (w *fuzzedConsumer) config() ConsumerConfig {
	s := &w.script
	c := DefaultConsumerConfig()
	c.Window, c.Concurrency, c.HandlerTimeout = 1+s.below(8), 1+s.below(3), []time.Duration{0, time.Second, time.Minute}[s.below(3)]
	w.window, w.slots = max(w.window, c.Window), max(w.slots, c.Concurrency)
	return c
}

func (w *fuzzedConsumer) step(e ConsumerEvent) {
	for _, action := range w.group.Step(w.now, e) {
		switch a := action.(type) {
		case StartHandler:
			w.started(a)
		case ToController:
			w.said(a)
		case Reconnect:
			for _, f := range w.flows {
				if f.conn == a.Conn {
					f.conn = 0
				}
			}
		}
	}
	w.check()
}

func (w *fuzzedConsumer) started(a StartHandler) {
	id := a.Delivery.Job.MessageID
	if _, twice := w.running[id]; twice {
		w.t.Fatalf("I-9: %s runs twice at a time", id)
	}
	w.running[id], w.ids[a.Run] = a.Run, id
	if len(w.running) > w.slots {
		w.t.Fatalf("I-9: %d handlers run in %d slots", len(w.running), w.slots)
	}
	if !w.ready {
		w.t.Fatalf("I-9: %s starts and the app is not ready", id)
	}
}

func (w *fuzzedConsumer) said(a ToController) {
	f := w.flowOf(a.Conn)
	if f == nil {
		w.t.Fatalf("a word on stream %d, which is not open: %T", a.Conn, a.Message)
	}
	switch m := a.Message.(type) {
	case protocol.RegisterConsumer:
		f.nonce = m.Nonce
	case protocol.Request:
		if m.BindingID == f.binding {
			f.demand = m.RequestUpTo
		}
	case protocol.Ack:
		for _, s := range m.Settlements {
			if s.Outcome == protocol.Confirmed && !w.succeeded[s.MessageID] {
				w.t.Fatalf("I-8: %s is confirmed and no handler finished it", s.MessageID)
			}
		}
	}
}

func (w *fuzzedConsumer) flowOf(conn ConnID) *fuzzedFlow {
	for _, f := range w.flows {
		if f.conn == conn && conn != 0 {
			return f
		}
	}
	return nil
}

// check is I-12. Each flow holds at most its window, one delivery that the others wait for, and what still runs for a lost binding;
// beyond that it only marks sequences, no more than may ever be in one window.
func (w *fuzzedConsumer) check() {
	s := w.group.Status(w.now)
	if s.Buffered < 0 || s.Running != len(w.running) || s.Unsettled < s.Buffered {
		w.t.Fatalf("I-12: it has lost count: %+v, %d run", s, len(w.running))
	}
	if limit := 3 * len(w.flows) * (w.window + w.slots + 1); s.Unsettled > limit {
		w.t.Fatalf("I-12: %d unsettled, at most %d are allowed", s.Unsettled, limit)
	}
	for _, c := range w.group.flows {
		if n := c.sub.entries.len(); n > 2*protocol.MaxFlowControlWindow {
			w.t.Fatalf("I-12: %d sequences are marked", n)
		}
		for _, p := range w.group.dedup.of(c.flow) {
			if n := len(p.confirmed.jobs); n > 2*(w.window+w.slots) {
				w.t.Fatalf("I-12: %d outcomes are remembered", n)
			}
		}
	}
}

func (w *fuzzedConsumer) act() {
	s := &w.script
	f := w.flows[s.below(len(w.flows))]
	switch s.below(16) {
	case 0, 15:
		w.now += s.pause()
		w.step(ConsumerTick{})
	case 1:
		w.last++
		f.conn = w.last
		w.step(Connected{Conn: w.last, Flow: f.name})
	case 2:
		w.register(f)
	case 3:
		w.deliver(f)
	case 4:
		w.finish()
	case 5:
		w.hear(f, protocol.SettledAck{BindingID: f.binding, UpTo: f.next - 1 - int64(s.below(4)), Above: []int64{f.next - 1}})
	case 6:
		w.hear(f, protocol.Heartbeat{BindingRef: protocol.BindingRef{BindingID: f.binding}})
	case 7:
		w.ready = s.yes()
		w.step(AppReady{Ready: w.ready})
	case 8:
		w.hear(f, protocol.HandBack{BindingID: f.binding, Count: s.below(4)})
	case 9:
		w.hear(f, protocol.BindingEnded{BindingID: f.binding, Code: protocol.RefusedSuperseded, RetryAfter: s.pause()})
	case 10:
		conn := f.conn
		f.conn = 0
		w.step(Disconnected{Conn: conn})
	case 11:
		clear(w.running)
		clear(w.ids)
		w.step(AppRestarted{})
	case 12:
		w.step(Cordon{Force: s.yes()})
	case 13:
		w.step(Uncordon{})
	default:
		w.nonsense(f)
	}
}

func (w *fuzzedConsumer) hear(f *fuzzedFlow, m protocol.ToWorker) {
	w.step(FromController{Conn: f.conn, Message: m})
}

func (w *fuzzedConsumer) register(f *fuzzedFlow) {
	s := &w.script
	if s.yes() || f.binding == "" {
		w.bindings++
		f.binding, f.next, f.demand, f.sent = fmt.Sprint("binding", w.bindings), 1, 0, nil
	}
	w.hear(f, protocol.RegistrationAck{
		Session: "s", Nonce: f.nonce, BindingID: f.binding, Secret: "secret", NextSeq: 1, Window: min(w.window, 1+s.below(8)),
		Heartbeat: 2 * time.Second, Deadline: 10 * time.Second,
	})
}

// deliver sends the next few jobs, or repeats the last; both flows use the same ids.
func (w *fuzzedConsumer) deliver(f *fuzzedFlow) {
	s := &w.script
	m := protocol.SequencedMessage{BindingID: f.binding}
	if len(f.sent) > 0 && s.yes() {
		m.Deliveries = f.sent[len(f.sent)-1-s.below(len(f.sent)):]
		w.hear(f, m)
		return
	}
	for range 1 + s.below(4) {
		d := protocol.Delivery{
			WorkerSeq: f.next, StoreSeq: 1 + int64(s.below(6)), Attempt: 1 + s.below(3),
			Job: protocol.Job{MessageID: s.text("j0", "j1", "j2", "j3", "j4"), Payload: []byte{1}},
		}
		f.next++
		f.sent = append(f.sent, d)
		if s.below(4) > 0 {
			m.Deliveries = append(m.Deliveries, d)
		}
	}
	w.hear(f, m)
}

func (w *fuzzedConsumer) finish() {
	s := &w.script
	run := RunID(1 + s.below(40))
	outcome := protocol.Outcome(s.below(9))
	if id, ok := w.ids[run]; ok {
		delete(w.running, id)
		delete(w.ids, run)
		if outcome == protocol.Confirmed {
			w.succeeded[id] = true
		}
	}
	w.step(HandlerDone{Run: run, Outcome: outcome, Reason: "r", RetryAfter: s.pause()})
}

// nonsense is what no honest controller or host says.
func (w *fuzzedConsumer) nonsense(f *fuzzedFlow) {
	s := &w.script
	switch s.below(8) {
	case 0:
		w.hear(f, nil)
	case 1:
		w.hear(f, protocol.SequencedMessage{BindingID: f.binding, Deliveries: []protocol.Delivery{{
			WorkerSeq: s.number(), StoreSeq: s.number(), Attempt: s.below(3), Job: protocol.Job{MessageID: s.text("j0", ""), Payload: make([]byte, s.below(2))},
		}}})
	case 2:
		w.hear(f, protocol.SettledAck{BindingID: f.binding, UpTo: s.number(), Above: []int64{s.number(), s.number()}})
	case 3:
		w.hear(f, protocol.RegistrationRefused{Nonce: f.nonce, Code: protocol.RefusedCoolingDown, RetryAfter: time.Duration(s.number())})
	case 4:
		w.hear(f, protocol.RegistrationAck{
			Session: "s", Nonce: f.nonce, BindingID: s.text(f.binding, "other"), Secret: "x", NextSeq: s.number(), Window: int(s.number()),
			Heartbeat: time.Duration(s.number()), Deadline: time.Duration(s.number()),
		})
	case 5:
		w.hear(f, protocol.HandBack{BindingID: f.binding, Count: int(s.number())})
	case 6:
		w.step(ReconfigureConsumer{Config: w.config()})
	default:
		w.step(ConsumerPaused{For: s.pause()})
	}
}
