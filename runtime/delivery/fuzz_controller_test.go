package delivery

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/memory"
)

// FuzzController plays a script of workers, producers and a queue that are honest, mistaken or malicious, in any order. Whatever
// they do, the Controller must not panic; worker sequences are contiguous and inside the demand (I-3), deliveries in flight inside
// the window (I-4), it fails at most once and is silent then (I-11), and what it holds is bounded by what was stored (I-12).
func FuzzController(f *testing.F) {
	honest := []byte{0, 0}
	for _, op := range []byte{0, 3, 1, 3, 2, 9, 10, 0, 3, 4, 1, 5, 5, 0, 3, 5, 6, 0, 0, 3} {
		honest = append(honest, op, 1, 1, 1)
	}
	f.Add(honest)
	for seed := range byte(8) {
		mixed := make([]byte, 300)
		for i := range mixed {
			mixed[i] = byte(i*31)*seed + byte(i>>2) + seed
		}
		f.Add(mixed)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		w := newFuzzedController(t, raw[:min(len(raw), fuzzLength)])
		w.step(Start{})
		for w.script.more() {
			w.act()
		}
	})
}

// fuzzedBinding is a binding as its messages show it.
type fuzzedBinding struct {
	ref          protocol.BindingRef
	conn         ConnID
	window       int
	sent, demand int64
	ended        bool
	deliveries   map[int64]protocol.Delivery
	heard        map[int64]bool
}

type fuzzedController struct {
	t        testing.TB
	script   script
	now      Now
	ctl      *Controller
	queue    *memory.Queue
	conns    []ConnID
	nonces   int
	last     ConnID
	bindings []*fuzzedBinding
	session  string
	upTo     uint64
	token    uint64
	stored   []protocol.Stored
	load     OpID
	apply    *ApplyBatch
	read     *ReadJobs
	failures int
	rows     int // ever stored
	window   int // the largest ever
}

func newFuzzedController(t testing.TB, raw []byte) *fuzzedController {
	q, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &fuzzedController{t: t, script: script{raw}, queue: q}
	w.ctl = NewController(w.config(), &testRandom{})
	return w
}

func (w *fuzzedController) config() ControllerConfig {
	s := &w.script
	c := DefaultControllerConfig()
	c.BacklogJobs, c.MaxAttempts, c.MaxWindow = s.below(8), s.below(4), 1+s.below(20)
	c.MemoryBytes, c.MaxBatch, c.MaxFrameBytes, c.QueueAttempts = int64(s.below(64)), 1+s.below(8), 1+s.below(64), 1+s.below(3)
	c.BackoffMax, c.DeliveryConfirmation, c.MaxPayloadBytes = 5*time.Second, true, 16
	c.IsolateConfirmAfter = time.Duration(1+s.below(20)) * time.Second
	w.window = max(w.window, c.MaxWindow)
	return c
}

func (w *fuzzedController) step(e Event) {
	actions := w.ctl.Step(w.now, e)
	if w.failures > 0 && len(actions) > 0 {
		w.t.Fatalf("I-11: it failed and then does %T", actions[0])
	}
	for _, a := range actions {
		w.take(a)
	}
	w.check()
}

func (w *fuzzedController) take(action Action) {
	switch a := action.(type) {
	case LoadQueue:
		w.load = a.Op
	case ApplyBatch:
		if w.apply != nil {
			w.t.Fatal("two batches in flight")
		}
		w.apply = &a
	case ReadJobs:
		w.read = &a
	case ToWorker:
		w.toWorker(a)
	case ToProducer:
		switch m := a.Message.(type) {
		case protocol.RequestNext:
			if m.Session != w.session {
				w.session, w.token, w.stored = m.Session, 0, nil
			}
			w.upTo = m.UpTo
		case protocol.Stored:
			w.stored = append(w.stored, m)
		}
	case Failed:
		if w.failures++; w.failures > 1 {
			w.t.Fatal("I-11: it failed twice")
		}
	}
}

func (w *fuzzedController) toWorker(a ToWorker) {
	switch m := a.Message.(type) {
	case protocol.RegistrationAck:
		for _, b := range w.bindings {
			if b.ref.BindingID == m.BindingID {
				b.conn, b.window = a.Conn, max(b.window, m.Window)
				return
			}
		}
		if m.NextSeq != 1 {
			w.t.Fatalf("I-3: a binding begins at %d", m.NextSeq)
		}
		w.bindings = append(w.bindings, &fuzzedBinding{
			ref: protocol.BindingRef{BindingID: m.BindingID, Secret: m.Secret}, conn: a.Conn, window: m.Window,
			deliveries: map[int64]protocol.Delivery{}, heard: map[int64]bool{},
		})
	case protocol.BindingEnded:
		if b := w.binding(m.BindingID); b != nil && b.conn == a.Conn {
			b.ended = true
		}
	case protocol.SequencedMessage:
		b := w.binding(m.BindingID)
		if b == nil || b.conn != a.Conn {
			w.t.Fatalf("I-3: deliveries for %s on stream %d", m.BindingID, a.Conn)
		}
		for _, d := range m.Deliveries {
			w.delivered(b, d)
		}
	}
}

func (w *fuzzedController) delivered(b *fuzzedBinding, d protocol.Delivery) {
	if before, again := b.deliveries[d.WorkerSeq]; again {
		if before.Job.MessageID != d.Job.MessageID || before.Attempt != d.Attempt {
			w.t.Fatalf("I-3: %d is resent as %s", d.WorkerSeq, d.Job.MessageID)
		}
		return
	}
	if d.WorkerSeq != b.sent+1 || d.WorkerSeq > b.demand {
		w.t.Fatalf("I-3: sequence %d after %d with demand %d", d.WorkerSeq, b.sent, b.demand)
	}
	b.sent++
	b.deliveries[d.WorkerSeq] = d
	if inFlight := b.sent - int64(len(b.heard)); inFlight > int64(b.window) {
		w.t.Fatalf("I-4: %d in flight, the window is %d", inFlight, b.window)
	}
}

func (w *fuzzedController) binding(id string) *fuzzedBinding {
	for _, b := range w.bindings {
		if b.ref.BindingID == id {
			return b
		}
	}
	return nil
}

func (w *fuzzedController) check() {
	s := w.ctl.Stats()
	live := s.BacklogJobs + s.DelayedJobs + s.InFlight + s.DirtyConfirms
	if live < 0 || live > w.rows || s.InFlight < 0 || s.OpenGrants < 0 || s.FreeDemand < 0 || s.MemoryBytes < 0 || s.BacklogBytes < 0 {
		w.t.Fatalf("I-12: %d jobs were stored, the stats are %+v", w.rows, s)
	}
	if len(s.Bindings) > len(w.conns)+8 || len(w.ctl.pods) > 8 {
		w.t.Fatalf("I-12: %d bindings, %d pods", len(s.Bindings), len(w.ctl.pods))
	}
}

func (w *fuzzedController) conn() ConnID {
	if len(w.conns) == 0 {
		return 99
	}
	return w.conns[w.script.below(len(w.conns))]
}

func (w *fuzzedController) act() {
	s := &w.script
	switch s.below(20) {
	case 0, 18:
		w.now += s.pause()
		w.step(Tick{})
	case 1:
		w.last++
		w.conns = append(w.conns, w.last)
		w.step(WorkerConnected{Conn: w.last, Worker: Worker{PodUID: s.text("p0", "p1", "p2"), PodName: "p", Pool: "pool"}})
	case 2:
		w.nonces++
		w.say(protocol.RegisterConsumer{
			Version: protocol.Version, Nonce: fmt.Sprint("n", w.nonces-s.below(2)), Window: 1 + s.below(12),
			Incarnation: protocol.Incarnation{PodUID: s.text("p0", "p1", "p2"), BootNonce: s.text("b0", "b1")},
		})
	case 3:
		w.answerQueue(s.below(8))
	case 4:
		w.demand()
	case 5:
		w.settle()
	case 6:
		w.say(protocol.Ack{BindingRef: w.anyRef(), StartedSeq: s.number(), Settlements: []protocol.Settlement{{
			WorkerSeq: s.number(), MessageID: s.text("j0", "j1", "j2", "", "nobody"), Attempt: s.below(4), Outcome: protocol.Outcome(s.below(9) - 1),
		}}})
	case 7:
		w.hangUp()
	case 8:
		w.step(WorkerGone{PodUID: s.text("p0", "p1", "p2", "nobody"), BootNonce: s.text("", "b0", "b1"), Reason: "gone"})
	case 9:
		w.step(ProducerAttached{Conn: 1, MaxCredits: s.below(12), Notify: true})
	case 10:
		w.token++
		w.produce(w.session, w.token)
	case 11:
		w.produce(s.text(w.session, "", "other"), uint64(s.number()))
	case 12:
		w.acknowledge()
	case 13:
		w.say(protocol.Heartbeat{BindingRef: w.anyRef(), StartedSeq: s.number()})
	case 14:
		w.say(protocol.Drain{BindingRef: w.anyRef()})
	case 15:
		w.step(Reconfigure{Config: w.config()})
	case 16:
		w.step(SetIntake{Open: s.yes(), Dispatch: s.yes()})
	case 17:
		if s.yes() {
			w.step(QueueAnswers{})
		}
		w.step(Paused{For: s.pause()})
	default:
		w.nonsense()
	}
}

// nonsense is what no honest host or peer says.
func (w *fuzzedController) nonsense() {
	s := &w.script
	switch s.below(8) {
	case 0:
		w.say(nil)
	case 1:
		w.step(ProducerMessage{Conn: 1})
	case 2:
		w.step(ProducerDetached{Conn: ConnID(s.below(3))})
	case 3:
		w.step(Applied{Op: OpID(s.below(30)), Result: queue.Result{Cursor: s.number()}})
	case 4:
		w.step(JobsRead{Op: OpID(s.below(30)), Jobs: make([]protocol.Job, s.below(3))})
	case 5:
		w.rows++ // as if a person had put one back
		w.step(Redriven{Epoch: queue.Epoch(s.below(3)), Row: queue.Row{JobRef: queue.JobRef{MessageID: "j0", StoreSeq: 1}}})
	case 6:
		w.step(Dropped{Epoch: queue.Epoch(s.below(3)), Ref: queue.JobRef{MessageID: s.text("j0", "j1"), StoreSeq: s.number()}})
	default:
		w.step(Start{})
	}
}

func (w *fuzzedController) say(m protocol.FromWorker) { w.sayOn(w.conn(), m) }

func (w *fuzzedController) sayOn(conn ConnID, m protocol.FromWorker) {
	switch m := m.(type) {
	case protocol.Request:
		if b := w.binding(m.BindingID); b != nil && b.ref == m.BindingRef {
			b.demand = max(b.demand, m.RequestUpTo)
		}
	case protocol.Ack:
		for _, s := range m.Settlements {
			b := w.binding(m.BindingID)
			if b == nil || b.ref != m.BindingRef {
				continue
			}
			if d, ok := b.deliveries[s.WorkerSeq]; ok && d.Job.MessageID == s.MessageID && d.Attempt == s.Attempt {
				b.heard[s.WorkerSeq] = true
			}
		}
	}
	w.step(WorkerMessage{Conn: conn, Message: m})
}

func (w *fuzzedController) anyRef() protocol.BindingRef {
	if len(w.bindings) == 0 {
		return protocol.BindingRef{}
	}
	ref := w.bindings[w.script.below(len(w.bindings))].ref
	if w.script.below(4) == 0 {
		ref.Secret = "guessed"
	}
	return ref
}

func (w *fuzzedController) demand() {
	s := &w.script
	if len(w.bindings) == 0 {
		return
	}
	b := w.bindings[s.below(len(w.bindings))]
	m := protocol.Request{BindingRef: b.ref, RequestUpTo: b.sent + int64(s.below(12)), StartedSeq: b.sent, ViaTimeout: s.yes()}
	if s.below(4) == 0 {
		m.RequestUpTo, m.ConfirmedSeq, m.StartedSeq = s.number(), s.number(), s.number()
	}
	w.sayOn(b.conn, m)
}

// settle is an honest word about the deliveries of a binding.
func (w *fuzzedController) settle() {
	s := &w.script
	if len(w.bindings) == 0 {
		return
	}
	b := w.bindings[s.below(len(w.bindings))]
	ack := protocol.Ack{BindingRef: b.ref, StartedSeq: int64(s.below(int(b.sent) + 1))}
	for seq := max(1, b.sent-int64(s.below(6))); seq <= b.sent; seq++ {
		d := b.deliveries[seq]
		ack.Settlements = append(ack.Settlements, protocol.Settlement{
			WorkerSeq: seq, MessageID: d.Job.MessageID, Attempt: d.Attempt, Outcome: protocol.Confirmed + protocol.Outcome(s.below(6)),
			RetryAfter: s.pause(),
		})
	}
	w.sayOn(b.conn, ack)
}

func (w *fuzzedController) hangUp() {
	if len(w.conns) == 0 {
		return
	}
	i := w.script.below(len(w.conns))
	conn := w.conns[i]
	w.conns = append(w.conns[:i], w.conns[i+1:]...)
	w.step(WorkerDisconnected{Conn: conn})
}

func (w *fuzzedController) produce(session string, token uint64) {
	s := &w.script
	job := protocol.Job{MessageID: s.text("j0", "j1", "j2", "j3", "j4", "j5", ""), Payload: make([]byte, s.below(18))}
	w.step(ProducerMessage{Conn: 1, Digest: queue.Digest{byte(len(job.Payload))}, Message: protocol.Produced{Session: session, Token: token, Job: job}})
}

func (w *fuzzedController) acknowledge() {
	s := &w.script
	ack := protocol.StoredAck{Session: w.session, Token: uint64(s.number()), MessageID: s.text("j0", "j1")}
	if len(w.stored) > 0 && s.yes() {
		m := w.stored[s.below(len(w.stored))]
		ack.Token, ack.MessageID = m.Token, m.MessageID
	}
	w.step(ProducerMessage{Conn: 1, Message: ack})
}

var errFuzzed = errors.New("the queue failed")

// answerQueue answers the oldest operation: as it is, with a lost answer, or with a failure before it took effect.
func (w *fuzzedController) answerQueue(how int) {
	ctx := w.t.Context()
	switch {
	case w.load != 0:
		op := w.load
		w.load = 0
		if how == 0 {
			w.step(Loaded{Op: op, Err: errFuzzed})
			return
		}
		var rows []queue.Row
		state, epoch, err := w.queue.Load(ctx, "fuzz", func(r queue.Row) error { rows = append(rows, r); return nil })
		w.step(Loaded{Op: op, Epoch: epoch, State: state, Rows: rows, Err: err})
	case w.apply != nil:
		a := *w.apply
		w.apply = nil
		if how == 0 {
			w.step(Applied{Op: a.Op, Err: errFuzzed})
			return
		}
		result, err := w.queue.Apply(ctx, a.Epoch, a.Batch)
		for _, r := range result.Stores {
			if r.Verdict == protocol.StoredNew {
				w.rows++
			}
		}
		if how == 1 {
			result, err = queue.Result{}, errFuzzed
		}
		w.step(Applied{Op: a.Op, Result: result, Err: err})
	case w.read != nil:
		a := *w.read
		w.read = nil
		jobs, err := w.queue.ReadJobs(ctx, a.Seqs)
		if how == 0 {
			jobs, err = nil, errFuzzed
		}
		w.step(JobsRead{Op: a.Op, Jobs: jobs, Err: err})
	}
}
