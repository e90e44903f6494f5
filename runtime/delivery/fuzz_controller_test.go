package delivery

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/memory"
)

// What a line of a script may be about.
const (
	ctlTick = iota
	ctlConnect
	ctlRegister
	ctlQueue
	ctlDemand
	ctlSettle
	ctlSettleOddly
	ctlHangUp
	ctlGone
	ctlAttach
	ctlProduce
	ctlProduceOddly
	ctlAcknowledge
	ctlHeartbeat
	ctlDrain
	ctlReconfigure
	ctlIntake
	ctlPaused
	ctlResolve
	ctlRestart
	ctlNonsense
	ctlOperations
)

// FuzzController plays a script of workers, producers and a queue that are honest, mistaken or malicious, in any order, over restarts of
// the Controller. Whatever they do, it must not panic; worker sequences are contiguous and inside the demand (I-3), deliveries in flight
// inside the window (I-4), it fails at most once and is silent then (I-11), what it holds is bounded by what was stored (I-12), it gives a
// claimed job to none but the pod that had it (B-238), and no job is complete that no worker has confirmed (I-8).
func FuzzController(f *testing.F) {
	for _, scenario := range controllerScenarios {
		addSeeds(f, controllerStart, scenario.ops, []byte{0, 1, 1, 1}, scenario.factor)
	}
	f.Fuzz(func(t *testing.T, raw []byte) { playController(t, raw) })
}

func playController(t testing.TB, raw []byte) *fuzzedController {
	w := newFuzzedController(t, lines(raw))
	w.step(Start{})
	for w.next() {
		w.act()
	}
	return w
}

// controllerStart configures: a backlog of 7, 3 attempts, a window of 8, 63 bytes of memory, batches of 8, one queue attempt, a patient lane.
var controllerStart = []byte{7, 3, 7, 63, 7, 63, 0, 19}

// Some honest runs.
var (
	submitTwo = [][]byte{
		{ctlQueue, 7}, {ctlAttach, 4}, {ctlProduce, 0, 1}, {ctlProduce, 1, 1}, {ctlQueue, 7}, {ctlQueue, 7},
		{ctlAcknowledge, 0, 0, 1, 0}, {ctlAcknowledge, 0, 0, 1, 1}, {ctlQueue, 7}, {ctlQueue, 7},
	}
	takeTwo  = [][]byte{{ctlConnect, 0}, {ctlRegister, 0, 0, 9}, {ctlDemand, 0, 4, 0, 1}, {ctlQueue, 7}, {ctlHeartbeat, 0, 1, 3}}
	comeBack = [][]byte{{ctlRestart, 7, 3, 7, 63, 7, 63, 0}, {ctlQueue, 7}, {ctlConnect, 0}}

	controllerScenarios = []struct {
		name   string
		factor byte
		want   string
		ops    [][]byte
	}{
		{
			"confirm", 31, "confirmed 2",
			slices.Concat(submitTwo, takeTwo, [][]byte{{ctlSettle, 0, 2, 5, 0, 0}, {ctlQueue, 7}}),
		},
		{
			"claim as running", 41, "confirmed 2, adopted 2",
			slices.Concat(submitTwo, takeTwo, comeBack, [][]byte{
				{ctlRegister, 0, 0, 9, 0, 0, 1, 0}, {ctlSettle, 1, 2, 5, 0, 0}, {ctlQueue, 7},
			}),
		},
		{
			"claim as confirmed", 43, "confirmed 2, claimed 2",
			slices.Concat(submitTwo, takeTwo, comeBack, [][]byte{
				{ctlRegister, 0, 0, 9, 0, 0, 1, 1}, {ctlQueue, 7}, {ctlResolve, 0},
			}),
		},
		{
			"claim as lost", 47, "redelivered 2",
			slices.Concat(submitTwo, takeTwo, comeBack, [][]byte{
				{ctlRegister, 0, 0, 9, 0, 0, 1, 2}, {ctlDemand, 1, 4, 0, 1}, {ctlQueue, 7}, {ctlTick, 4}, {ctlQueue, 7}, {ctlQueue, 7},
			}),
		},
		{
			"claim of what ended", 53, "resolved 2",
			slices.Concat(submitTwo, takeTwo, [][]byte{{ctlSettle, 0, 2, 5, 0, 0}, {ctlQueue, 7}}, comeBack, [][]byte{
				{ctlRegister, 0, 0, 9, 0, 0, 1, 1}, {ctlResolve, 0}, {ctlRegister, 0, 0, 9, 0, 0, 1, 1},
			}),
		},
		{
			"forged claim", 59, "forged 4",
			slices.Concat(submitTwo, takeTwo, comeBack, [][]byte{
				{ctlRegister, 0, 0, 9, 0, 0, 2, 1}, {ctlConnect, 1}, {ctlRegister, 1, 0, 9, 0, 0, 3, 1}, {ctlTick, 5}, {ctlQueue, 7},
			}),
		},
		{
			"refusal of an envelope", 61, "nacked 2, redelivered 2",
			slices.Concat(submitTwo, takeTwo, [][]byte{{ctlSettle, 0, 2, 5, 6, 0}, {ctlQueue, 7}, {ctlTick, 4}, {ctlQueue, 7}}),
		},
	}
)

// TestFuzzedControllerScenarios sees that the seeds get where they are meant to: a fuzzer that starts nowhere finds nothing.
func TestFuzzedControllerScenarios(t *testing.T) {
	for _, scenario := range controllerScenarios {
		raw := line(controllerStart, nil)
		for _, op := range scenario.ops {
			raw = append(raw, line(op, []byte{0, 1, 1, 1})...)
		}
		w := playController(t, raw)
		s := w.ctl.Stats()
		got := tally(
			"confirmed", s.Confirmed, "adopted", s.Adopted, "claimed", s.Claimed, "nacked", s.Nacked, "forged", s.Dropped["claim-ticket"],
			"resolved", w.resolved, "redelivered", s.Redelivered,
		)
		if got != scenario.want {
			t.Errorf("%s: %s, want %s", scenario.name, got, scenario.want)
		}
	}
}

// fuzzedBinding is a binding as its messages show it.
type fuzzedBinding struct {
	ref          protocol.BindingRef
	conn         ConnID
	window       int
	sent, demand int64
	ended        bool
	deliveries   map[int64]protocol.Delivery // the adopted ones included
	adopted      int
	heard        map[int64]bool
	pod          string
}

// givenJob is what a pod was given, and may claim.
type givenJob struct {
	pod   string
	claim protocol.Claim // without state
}

type fuzzedController struct {
	t        testing.TB
	lines    []script
	script   script // of the present line
	random   testRandom
	now      Now
	ctl      *Controller
	queue    *memory.Queue
	conns    []ConnID
	pods     map[ConnID]string
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
	resolves []ResolveClaims
	resolved int // jobs whose claims were resolved
	given    map[givenJob]bool
	said     map[queue.JobRef]bool // somebody who was given it said that it is done
	failures int
	rows     int // ever stored
	window   int // the largest ever
}

func newFuzzedController(t testing.TB, lines []script) *fuzzedController {
	q, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &fuzzedController{
		t: t, lines: lines, queue: q, pods: map[ConnID]string{}, given: map[givenJob]bool{}, said: map[queue.JobRef]bool{},
	}
	w.next()
	w.ctl = NewController(w.config(), &w.random)
	return w
}

// next turns to the next line.
func (w *fuzzedController) next() bool {
	if len(w.lines) == 0 {
		return false
	}
	w.script, w.lines = w.lines[0], w.lines[1:]
	return true
}

// restart is a producer restart: everything but the queue is gone, and what was on its way to it.
func (w *fuzzedController) restart() {
	w.ctl = NewController(w.config(), &w.random)
	for _, b := range w.bindings {
		b.ended = true
	}
	w.conns, w.resolves, w.failures, w.stored = nil, nil, 0, nil
	w.load, w.apply, w.read = 0, nil, nil
	w.session, w.upTo, w.token = "", 0, 0
	w.step(Start{})
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
	case ResolveClaims:
		w.resolves = append(w.resolves, a)
	case JobSettled:
		if !a.DeadLettered && !w.said[a.Ref] {
			w.t.Fatalf("I-8: %v is complete and no worker that had it said so", a.Ref)
		}
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
		w.acknowledged(a.Conn, m)
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

func (w *fuzzedController) acknowledged(conn ConnID, m protocol.RegistrationAck) {
	if err := m.Validate(); err != nil {
		w.t.Fatalf("it acknowledges with %+v: %v", m, err)
	}
	b := w.binding(m.BindingID)
	if b == nil {
		if m.NextSeq != 1 {
			w.t.Fatalf("I-3: a binding begins at %d", m.NextSeq)
		}
		b = &fuzzedBinding{
			ref: protocol.BindingRef{BindingID: m.BindingID, Secret: m.Secret}, pod: w.pods[conn],
			deliveries: map[int64]protocol.Delivery{}, heard: map[int64]bool{},
		}
		w.bindings = append(w.bindings, b)
	}
	if b.pod != w.pods[conn] {
		w.t.Fatalf("B-238: the binding of %s is acknowledged to %s", b.pod, w.pods[conn])
	}
	b.conn, b.window = conn, max(b.window, m.Window)
	for _, a := range m.Adopted {
		w.adopted(b, a)
	}
}

// adopted is B-238: what a pod claims is its own only if it was given the job before.
func (w *fuzzedController) adopted(b *fuzzedBinding, a protocol.Adopted) {
	had := false
	for g := range w.given {
		had = had || g.pod == b.pod && g.claim.MessageID == a.MessageID && g.claim.StoreSeq == a.StoreSeq
	}
	if !had {
		w.t.Fatalf("B-238: %s never had %s and is told that it adopted it", b.pod, a.MessageID)
	}
	if before, again := b.deliveries[a.WorkerSeq]; again {
		if before.Job.MessageID != a.MessageID {
			w.t.Fatalf("I-3: %d is adopted as %s", a.WorkerSeq, a.MessageID)
		}
		return
	}
	b.adopted++
	b.demand = max(b.demand, a.WorkerSeq)
	w.give(b, protocol.Delivery{
		WorkerSeq: a.WorkerSeq, StoreSeq: a.StoreSeq, Attempt: a.Attempt, Ticket: a.Ticket, Job: protocol.Job{MessageID: a.MessageID},
	})
}

func (w *fuzzedController) give(b *fuzzedBinding, d protocol.Delivery) {
	b.deliveries[d.WorkerSeq] = d
	w.given[givenJob{b.pod, protocol.Claim{StoreSeq: d.StoreSeq, MessageID: d.Job.MessageID, Attempt: d.Attempt, Ticket: d.Ticket}}] = true
	for b.deliveries[b.sent+1].WorkerSeq != 0 {
		b.sent++
	}
}

func (w *fuzzedController) delivered(b *fuzzedBinding, d protocol.Delivery) {
	if err := d.Validate(); err != nil {
		w.t.Fatalf("it delivers %+v: %v", d, err)
	}
	if before, again := b.deliveries[d.WorkerSeq]; again {
		if before.Job.MessageID != d.Job.MessageID || before.Attempt != d.Attempt {
			w.t.Fatalf("I-3: %d is resent as %s", d.WorkerSeq, d.Job.MessageID)
		}
		return
	}
	if d.WorkerSeq != b.sent+1 || d.WorkerSeq > b.demand {
		w.t.Fatalf("I-3: sequence %d after %d with demand %d", d.WorkerSeq, b.sent, b.demand)
	}
	w.give(b, d)
	if inFlight := len(b.deliveries) - len(b.heard); inFlight > b.window+b.adopted {
		w.t.Fatalf("I-4: %d in flight, the window is %d, %d are adopted", inFlight, b.window, b.adopted)
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
	switch s.below(ctlOperations) {
	case ctlTick:
		w.now += s.pause()
		w.step(Tick{})
	case ctlConnect:
		w.last++
		w.conns = append(w.conns, w.last)
		w.pods[w.last] = s.text("p0", "p1", "p2")
		w.step(WorkerConnected{Conn: w.last, Worker: Worker{
			PodUID: w.pods[w.last], PodName: "p", Pool: "pool", Revision: s.text("r0", "r1"),
		}})
	case ctlRegister:
		w.register()
	case ctlQueue:
		w.answerQueue(s.below(8))
	case ctlDemand:
		w.demand()
	case ctlSettle:
		w.settle()
	case ctlSettleOddly:
		w.say(protocol.Ack{BindingRef: w.anyRef(), StartedSeq: s.number(), Settlements: []protocol.Settlement{{
			WorkerSeq: s.number(), MessageID: s.text("j0", "j1", "j2", "", "nobody"), Attempt: s.below(4), Outcome: protocol.Outcome(s.below(10) - 1),
		}}})
	case ctlHangUp:
		w.hangUp()
	case ctlGone:
		w.step(WorkerGone{PodUID: s.text("p0", "p1", "p2", "nobody"), BootNonce: s.text("", "b0", "b1"), Reason: "gone"})
	case ctlAttach:
		w.step(ProducerAttached{Conn: 1, MaxCredits: s.below(12), Notify: true})
	case ctlProduce:
		w.token++
		w.produce(w.session, w.token)
	case ctlProduceOddly:
		w.produce(s.text(w.session, "", "other"), uint64(s.number()))
	case ctlAcknowledge:
		w.acknowledge()
	case ctlHeartbeat:
		ref := w.anyRef()
		w.say(protocol.Heartbeat{BindingRef: ref, StartedSeq: s.number()})
	case ctlDrain:
		w.say(protocol.Drain{BindingRef: w.anyRef()})
	case ctlReconfigure:
		w.step(Reconfigure{Config: w.config()})
	case ctlIntake:
		w.step(SetIntake{Open: s.yes(), Dispatch: s.yes()})
	case ctlPaused:
		w.step(Paused{For: s.pause()})
	case ctlResolve:
		w.resolve()
	case ctlRestart:
		w.restart()
	default:
		w.nonsense()
	}
}

// register asks for a binding, with claims that are true, out of date, somebody else's or made up.
func (w *fuzzedController) register() {
	s := &w.script
	conn := w.conn()
	w.nonces++
	m := protocol.RegisterConsumer{
		Version: protocol.Version, Nonce: fmt.Sprint("n", w.nonces-s.below(2)), Window: 1 + s.below(12),
		Incarnation: protocol.Incarnation{PodUID: cmp.Or(w.pods[conn], "p0"), BootNonce: s.text("b0", "b1")},
	}
	if s.below(8) == 7 {
		m.Incarnation.PodUID = "p1"
	}
	m.Claims = w.claims(m.Incarnation.PodUID)
	w.sayOn(conn, m)
}

func (w *fuzzedController) claims(pod string) []protocol.Claim {
	s := &w.script
	kind, state := s.below(5), protocol.ClaimRunning+protocol.ClaimState(s.below(4))
	if kind == 0 {
		return nil
	}
	if kind == 4 {
		return []protocol.Claim{{StoreSeq: s.number(), MessageID: s.text("j0", "j1", ""), Attempt: s.below(3), Ticket: protocol.Ticket{1}, State: state}}
	}
	var claims []protocol.Claim
	for _, b := range w.bindings {
		if (b.pod == pod) == (kind == 3) {
			continue
		}
		for _, seq := range slices.Sorted(maps.Keys(b.deliveries)) {
			d := b.deliveries[seq]
			claims = append(claims, protocol.Claim{
				StoreSeq: d.StoreSeq, MessageID: d.Job.MessageID, Attempt: d.Attempt, Ticket: d.Ticket, State: state, Reason: "r",
			})
		}
	}
	for i := range claims {
		if kind == 2 {
			claims[i].Ticket[3]++
		}
	}
	return claims
}

// resolve answers the oldest question about claims, honestly or with what is in no queue.
func (w *fuzzedController) resolve() {
	if len(w.resolves) == 0 {
		return
	}
	a := w.resolves[0]
	w.resolves = w.resolves[1:]
	ev := ClaimsResolved{Epoch: a.Epoch, PodUID: a.PodUID, BindingID: a.BindingID}
	w.resolved += len(a.Refs)
	switch w.script.below(4) {
	case 0, 1:
		for _, ref := range a.Refs {
			state, ok, err := w.queue.Lookup(w.t.Context(), ref.MessageID)
			switch known := ok && state.StoreSeq == ref.StoreSeq; {
			case err != nil || known && state.Status == queue.StatusStored:
			case known && state.Status == queue.StatusDeadLettered:
				if _, err := w.queue.Apply(w.t.Context(), a.Epoch, queue.Batch{Confirms: []queue.JobRef{ref}}); err == nil {
					ev.Confirmed, ev.Ended = append(ev.Confirmed, ref), append(ev.Ended, ref)
				}
			default:
				ev.Ended = append(ev.Ended, ref)
			}
		}
	case 2: // it could not find out
	default:
		ev.PodUID, ev.Ended, ev.Confirmed = "p2", a.Refs, a.Refs
	}
	w.step(ev)
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
		op := OpID(s.below(30))
		if w.apply != nil && w.apply.Op == op {
			w.apply = nil // this was the answer
		}
		w.step(Applied{Op: op, Result: queue.Result{Cursor: s.number()}})
	case 4:
		op := OpID(s.below(30))
		if w.read != nil && w.read.Op == op {
			w.read = nil
		}
		w.step(JobsRead{Op: op, Jobs: make([]protocol.Job, s.below(3))})
	case 5:
		w.rows++ // as if a person had put one back; a job of that id that is stored anew says that this one has ended
		w.said[queue.JobRef{MessageID: "j0", StoreSeq: 1}] = true
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
		if b := w.binding(m.BindingID); b != nil && b.ref == m.BindingRef {
			w.settled(b, m.Settlements)
		}
	case protocol.RegisterConsumer:
		for _, claim := range m.Claims {
			proof := givenJob{w.pods[conn], claim}
			proof.claim.State, proof.claim.Reason = 0, ""
			if claim.State == protocol.ClaimConfirmed && w.given[proof] {
				w.said[queue.JobRef(claim.Ref())] = true
			}
		}
	}
	w.step(WorkerMessage{Conn: conn, Message: m})
}

// settled notes which settlements of a binding may count.
func (w *fuzzedController) settled(b *fuzzedBinding, settlements []protocol.Settlement) {
	for _, s := range settlements {
		d, ok := b.deliveries[s.WorkerSeq]
		if !ok || s.Outcome != protocol.Inadmissible && (d.Job.MessageID != s.MessageID || d.Attempt != s.Attempt) {
			continue
		}
		b.heard[s.WorkerSeq] = true
		if s.Outcome == protocol.Confirmed {
			w.said[queue.JobRef{MessageID: s.MessageID, StoreSeq: d.StoreSeq}] = true
		}
	}
}

func (w *fuzzedController) anyRef() protocol.BindingRef {
	if len(w.bindings) == 0 {
		return protocol.BindingRef{}
	}
	ref := w.bindings[w.script.below(len(w.bindings))].ref
	if w.script.below(4) == 3 {
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
	if s.below(4) == 3 {
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
	first, outcome := max(1, b.sent-int64(s.below(6))), protocol.Confirmed+protocol.Outcome(s.below(7))
	for seq := first; seq <= b.sent; seq++ {
		d := b.deliveries[seq]
		settlement := protocol.Settlement{WorkerSeq: seq, MessageID: d.Job.MessageID, Attempt: d.Attempt, Outcome: outcome, RetryAfter: s.pause()}
		if outcome == protocol.Inadmissible {
			settlement.MessageID, settlement.Attempt = "", 0
		}
		ack.Settlements = append(ack.Settlements, settlement)
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
