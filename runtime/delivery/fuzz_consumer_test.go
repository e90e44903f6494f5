package delivery

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// What a line of a script may be about.
const (
	conTick = iota
	conConnect
	conRegister
	conDeliver
	conFinish
	conTakeOver
	conBeat
	conReady
	conHandBack
	conEnd
	conHangUp
	conAppRestarted
	conCordon
	conUncordon
	conHold
	conOrphansGone
	conClaimsEnded
	conMalformed
	conNonsense
	conOperations
)

// FuzzConsumer plays a script of two controllers and an app that are honest, mistaken or malicious, with what an earlier process of the
// worker left behind. Whatever they do, the machine must not panic; it runs no MessageID twice at a time, across its flows and its
// processes, and no more handlers than it has slots (I-9); it confirms and claims as confirmed only what a handler finished (I-8); what it
// says is well formed; and what it holds is bounded by its windows (I-12).
func FuzzConsumer(f *testing.F) {
	for _, scenario := range consumerScenarios {
		addSeeds(f, consumerStart, scenario.ops, []byte{0, 1, 1, 1}, scenario.factor)
	}
	f.Fuzz(func(t *testing.T, raw []byte) { playConsumer(t, raw) })
}

func playConsumer(t testing.TB, raw []byte) *fuzzedConsumer {
	w := &fuzzedConsumer{
		t: t, lines: lines(raw), running: map[string]RunID{}, runs: map[RunID]flowID{}, succeeded: map[flowID]bool{}, orphans: map[string]bool{},
	}
	for _, flow := range []string{"a", "b"} {
		w.flows = append(w.flows, &fuzzedFlow{name: flow, next: 1})
	}
	w.next()
	w.group = NewConsumerGroup(w.config(), protocol.Incarnation{PodUID: "p", BootNonce: "b"}, &testRandom{}, "a", "b")
	for w.next() {
		w.act()
	}
	return w
}

// consumerStart configures: a window of 8, 3 slots, no handler timeout, up to 3 producers that are never forgotten for silence.
var consumerStart = []byte{7, 2, 0, 3, 0}

// Some honest runs. The second byte of a line is the flow.
var (
	takeThree = [][]byte{{conReady, 0, 1}, {conConnect, 0}, {conRegister, 0, 1, 7, 1, 0, 0}, {conDeliver, 0, 0, 2, 0, 0, 7}}
	rebind    = [][]byte{{conHangUp, 0}, {conConnect, 0}}

	consumerScenarios = []struct {
		name   string
		factor byte
		want   string
		ops    [][]byte
	}{
		{
			"confirm", 37, "started 3, confirmed 1",
			slices.Concat(takeThree, [][]byte{{conFinish, 0, 0, 1}, {conTick, 0, 2}, {conTakeOver, 0, 0}}),
		},
		{
			"adopted while it runs", 41, "started 3, confirmed 1, claims 3, adopted 2",
			slices.Concat(takeThree, rebind, [][]byte{
				{conRegister, 0, 1, 7, 1, 0, 2}, {conFinish, 0, 0, 1}, {conTick, 0, 2},
			}),
		},
		{
			"adopted when it is done", 43, "started 3, confirmed 2, claims 3, adopted 3",
			slices.Concat(takeThree, [][]byte{{conHangUp, 0}, {conFinish, 0, 0, 1}, {conConnect, 0}, {conRegister, 0, 1, 7, 1, 0, 3}, {conTick, 0, 2}}),
		},
		{
			"claimed and ended", 47, "started 3, confirmed 1, claims 2",
			slices.Concat(takeThree, [][]byte{
				{conHangUp, 0}, {conFinish, 0, 0, 1}, {conConnect, 0}, {conRegister, 0, 1, 7, 1, 0, 0}, {conHangUp, 0}, {conConnect, 0}, {conRegister, 0, 0, 7, 1, 0, 0},
				{conClaimsEnded, 0, 0}, {conHangUp, 0}, {conConnect, 0},
			}),
		},
		{
			"left by an earlier process", 53, "started 2, claims 1",
			slices.Concat([][]byte{{conHold, 0, 0, 3, 1, 1}}, takeThree, [][]byte{
				{conFinish, 0, 0, 1}, {conClaimsEnded, 0, 0}, {conOrphansGone}, {conTick, 0, 4}, {conDeliver, 0, 1, 0},
			}),
		},
		{
			"refused envelope", 59, "started 3, inadmissible 1",
			slices.Concat(takeThree, [][]byte{{conNonsense, 0, 1, 6, 3, 1, 1, 1}, {conTick, 0, 4}}),
		},
	}
)

// TestFuzzedConsumerScenarios sees that the seeds get where they are meant to.
func TestFuzzedConsumerScenarios(t *testing.T) {
	for _, scenario := range consumerScenarios {
		raw := line(consumerStart, nil)
		for _, op := range scenario.ops {
			raw = append(raw, line(op, []byte{0, 1, 1, 1})...)
		}
		w := playConsumer(t, raw)
		s := w.group.Status(w.now)
		got := tally(
			"started", s.Started, "confirmed", s.Confirmed, "claims", len(w.flows[0].claims), "adopted", w.adopted, "orphans", s.Orphaned,
			"inadmissible", s.Dropped["inadmissible"],
		)
		if got != scenario.want {
			t.Errorf("%s: %s, want %s", scenario.name, got, scenario.want)
		}
	}
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
	claims  []protocol.Claim // of the latest registration
}

// flowID names a job of a flow.
type flowID struct{ flow, id string }

type fuzzedConsumer struct {
	t         testing.TB
	lines     []script
	script    script // of the present line
	now       Now
	group     *ConsumerGroup
	flows     []*fuzzedFlow
	last      ConnID
	bindings  int
	running   map[string]RunID // by MessageID
	runs      map[RunID]flowID
	succeeded map[flowID]bool
	orphans   map[string]bool // handlers of an earlier process
	adopted   int
	slots     int // the most ever
	window    int
	ready     bool
}

// next turns to the next line.
func (w *fuzzedConsumer) next() bool {
	if len(w.lines) == 0 {
		return false
	}
	w.script, w.lines = w.lines[0], w.lines[1:]
	return true
}

func (w *fuzzedConsumer) config() ConsumerConfig {
	s := &w.script
	c := DefaultConsumerConfig()
	c.Window, c.Concurrency, c.HandlerTimeout = 1+s.below(8), 1+s.below(3), []time.Duration{0, time.Second, time.Minute}[s.below(3)]
	c.MaxProducers, c.ProducerIdle = s.below(4), []time.Duration{0, time.Minute}[s.below(2)]
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
		case OrphanEnded:
			delete(w.orphans, a.MessageID)
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
	if w.orphans[id] {
		w.t.Fatalf("I-9: %s starts and an earlier process may still run it", id)
	}
	if err := a.Delivery.Validate(); err != nil {
		w.t.Fatalf("A-021: %s starts: %v", id, err)
	}
	w.running[id], w.runs[a.Run] = a.Run, flowID{a.Flow, id}
	if n := len(w.running) + len(w.orphans); n > w.slots {
		w.t.Fatalf("I-9: %d handlers run in %d slots", n, w.slots)
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
		w.registers(f, m)
	case protocol.Request:
		if m.CheckRange(math.MaxInt64) != nil {
			w.t.Fatalf("I-4: it asks for %+v", m)
		}
		if m.BindingID == f.binding {
			f.demand = m.RequestUpTo
		}
	case protocol.Ack:
		for _, s := range m.Settlements {
			if err := s.Validate(); err != nil {
				w.t.Fatalf("it settles %+v: %v", s, err)
			}
			if s.Outcome == protocol.Confirmed && !w.succeeded[flowID{f.name, s.MessageID}] {
				w.t.Fatalf("I-8: %s is confirmed and no handler finished it", s.MessageID)
			}
		}
	}
}

func (w *fuzzedConsumer) registers(f *fuzzedFlow, m protocol.RegisterConsumer) {
	if err := m.Validate(); err != nil {
		w.t.Fatalf("it registers with %+v: %v", m, err)
	}
	f.nonce, f.claims = m.Nonce, m.Claims
	for _, c := range m.Claims {
		switch r := w.running[c.MessageID]; c.State {
		case protocol.ClaimConfirmed:
			if !w.succeeded[flowID{f.name, c.MessageID}] {
				w.t.Fatalf("I-8: %s is claimed as confirmed and no handler finished it", c.MessageID)
			}
		case protocol.ClaimRunning:
			if w.runs[r].flow != f.name {
				w.t.Fatalf("I-8: %s is claimed as running and does not run", c.MessageID)
			}
		default: // lost, which says nothing
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
	op := s.below(conOperations)
	f := w.flows[s.below(len(w.flows))]
	switch op {
	case conTick:
		w.now += s.pause()
		w.step(ConsumerTick{})
	case conConnect:
		w.last++
		f.conn = w.last
		w.step(Connected{Conn: w.last, Flow: f.name})
	case conRegister:
		w.register(f)
	case conDeliver:
		w.deliver(f)
	case conFinish:
		w.finish()
	case conTakeOver:
		w.hear(f, protocol.SettledAck{BindingID: f.binding, UpTo: f.next - 1 - int64(s.below(4)), Above: []int64{f.next - 1}})
	case conBeat:
		w.hear(f, protocol.Heartbeat{BindingRef: protocol.BindingRef{BindingID: f.binding}})
	case conReady:
		w.ready = s.yes()
		w.step(AppReady{Ready: w.ready})
	case conHandBack:
		w.hear(f, protocol.HandBack{BindingID: f.binding, Count: s.below(4)})
	case conEnd:
		w.hear(f, protocol.BindingEnded{BindingID: f.binding, Code: protocol.RefusedSuperseded, RetryAfter: s.pause()})
	case conHangUp:
		conn := f.conn
		f.conn = 0
		w.step(Disconnected{Conn: conn})
	case conAppRestarted:
		clear(w.running)
		clear(w.runs)
		clear(w.orphans)
		w.step(AppRestarted{})
	case conCordon:
		w.step(Cordon{Force: s.yes()})
	case conUncordon:
		w.step(Uncordon{})
	case conHold:
		w.hold(f)
	case conOrphansGone:
		w.step(OrphansGone{})
	case conClaimsEnded:
		w.endClaims(f)
	case conMalformed:
		w.step(Malformed{Conn: f.conn})
	default:
		w.nonsense(f)
	}
}

// hold is what an earlier process left: jobs of either flow, some without a ticket.
func (w *fuzzedConsumer) hold(f *fuzzedFlow) {
	s := &w.script
	id := s.text("j0", "j1", "j2", "")
	claim := protocol.Claim{StoreSeq: s.number(), MessageID: id, Attempt: s.below(3), State: protocol.ClaimLost}
	if s.yes() {
		claim.Ticket = protocol.Ticket{9}
	}
	if _, runs := w.running[id]; !runs {
		w.orphans[id] = true
	}
	w.step(HoldClaims{Flow: f.name, Claims: []protocol.Claim{claim}})
}

// endClaims is an honest word about the latest claims, or a word about a job that may be anything.
func (w *fuzzedConsumer) endClaims(f *fuzzedFlow) {
	s := &w.script
	m := protocol.ClaimsEnded{BindingID: f.binding, Ended: []protocol.ClaimRef{{MessageID: s.text("j0", "j1", "nobody"), StoreSeq: s.number()}}}
	for _, c := range f.claims {
		m.Ended = append(m.Ended, c.Ref())
	}
	w.hear(f, m)
}

func (w *fuzzedConsumer) hear(f *fuzzedFlow, m protocol.ToWorker) {
	w.step(FromController{Conn: f.conn, Message: m})
}

// register answers the latest registration: with a new binding or the one before, of this producer or another, with some of the claims.
func (w *fuzzedConsumer) register(f *fuzzedFlow) {
	s := &w.script
	fresh := s.yes() || f.binding == ""
	if fresh {
		w.bindings++
		f.binding, f.next, f.demand, f.sent = fmt.Sprint("binding", w.bindings), 1, 0, nil
	}
	m := protocol.RegistrationAck{
		Session: "s", Nonce: f.nonce, BindingID: f.binding, Secret: "secret", NextSeq: 1, Window: min(w.window, 1+s.below(8)),
		Heartbeat: 2 * time.Second, Deadline: 10 * time.Second,
	}
	if epoch := s.below(4); epoch > 0 {
		m.Epoch, m.Queue = uint64(epoch), s.text("q0", "q0", "q0", "q1")
	}
	for adopt := s.below(8); adopt > 0 && len(f.claims) > 0; adopt-- {
		c := f.claims[(adopt-1)%len(f.claims)]
		d := protocol.Delivery{
			WorkerSeq: f.next, StoreSeq: c.StoreSeq, Attempt: c.Attempt, Ticket: c.Ticket, Job: protocol.Job{MessageID: c.MessageID, Payload: []byte{1}},
		}
		f.next++
		f.sent = append(f.sent, d)
		w.adopted++
		m.Adopted = append(m.Adopted, protocol.Adopted{
			WorkerSeq: d.WorkerSeq, StoreSeq: c.StoreSeq, MessageID: c.MessageID, Attempt: c.Attempt, Ticket: c.Ticket,
		})
	}
	w.hear(f, m)
}

// deliver sends the next few jobs, or repeats the last; both flows use the same ids.
func (w *fuzzedConsumer) deliver(f *fuzzedFlow) {
	s := &w.script
	m := protocol.SequencedMessage{BindingID: f.binding}
	if repeat := s.yes(); repeat && len(f.sent) > 0 {
		m.Deliveries = f.sent[len(f.sent)-1-s.below(len(f.sent)):]
		w.hear(f, m)
		return
	}
	count, first, seq, lost := 1+s.below(4), s.below(5), 1+int64(s.below(6)), s.below(8)
	for i := range count {
		d := protocol.Delivery{
			WorkerSeq: f.next, StoreSeq: seq + int64(i), Attempt: 1 + s.below(3), Ticket: protocol.Ticket{byte(seq) + byte(i), 1},
			Job: protocol.Job{MessageID: fmt.Sprint("j", (first+i)%5), Payload: []byte{1}},
		}
		f.next++
		f.sent = append(f.sent, d)
		if i != lost {
			m.Deliveries = append(m.Deliveries, d)
		}
	}
	w.hear(f, m)
}

func (w *fuzzedConsumer) finish() {
	s := &w.script
	run := RunID(1 + s.below(40))
	outcome := protocol.Outcome(s.below(10))
	if job, ok := w.runs[run]; ok {
		delete(w.running, job.id)
		delete(w.runs, run)
		if outcome == protocol.Confirmed {
			w.succeeded[job] = true
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
