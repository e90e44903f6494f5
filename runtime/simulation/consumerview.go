package simulation

import (
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// consumerView watches one worker process from outside.
type consumerView struct {
	s *sidecar
	w *world

	window      int // the largest it was ever configured with
	concurrency int // likewise
	memory      int // the most finished jobs of a flow that it may remember
	running     map[string]*run
	runs        int
	runIDs      map[delivery.RunID]bool
	succeeded   map[flowJob]bool // whose handler ended in success in this process
	finished    map[flowRef]bool // jobs of which nobody refused that, and which it must remember
	latest      []flowRef        // the order in which they were finished
	settlements map[settlementKey]protocol.Settlement
	appReady    bool
}

// flowJob names a job among those of all flows.
type flowJob struct {
	flow *flow
	id   string
}

// settlementKey names a settlement. A worker that went to another controller and came back holds the same binding anew, and
// has forgotten what it said the first time; the controller listens to one stream only, so it cannot have heard both.
type settlementKey struct {
	hold    int
	binding string
	seq     int64
}

// flowRef names a job of a flow.
type flowRef struct {
	flow *flow
	ref  queue.JobRef
}

// ref names the job of a run.
func (r *run) ref() flowRef {
	return flowRef{r.flow, queue.JobRef{MessageID: r.delivery.Job.MessageID, StoreSeq: r.delivery.StoreSeq}}
}

func newConsumerView(s *sidecar) *consumerView {
	v := &consumerView{
		s: s, w: s.w, running: map[string]*run{}, runIDs: map[delivery.RunID]bool{}, succeeded: map[flowJob]bool{},
		finished:    map[flowRef]bool{},
		settlements: map[settlementKey]protocol.Settlement{},
	}
	v.reconfigured(s.config)
	return v
}

func (v *consumerView) reconfigured(c delivery.ConsumerConfig) {
	v.window, v.concurrency = max(v.window, c.Window), max(v.concurrency, c.Concurrency)
	v.memory = max(v.memory, 2*(c.Window+c.Concurrency))
}

func (v *consumerView) before(event delivery.ConsumerEvent) {
	switch e := event.(type) {
	case delivery.FromController:
		v.heard(e)
	case delivery.AppReady:
		v.appReady = e.Ready
	case delivery.Connected: // silence starts anew
		l := v.s.linkTo(e.Flow)
		l.lastHeard, l.answeredOn = v.w.now, 0
	case delivery.ConsumerPaused:
		for _, l := range v.s.links {
			l.lastHeard = v.w.now
		}
	case delivery.AppRestarted: // it may cut off an answer that is on its way
		for _, r := range v.s.runs {
			delete(v.finished, r.ref())
		}
	}
}

func (v *consumerView) heard(e delivery.FromController) {
	l := v.s.linkOn(e.Conn)
	if l == nil || l.left == e.Conn {
		return
	}
	l.lastHeard = v.w.now
	switch m := e.Message.(type) {
	case protocol.RegistrationAck:
		if m.Nonce == l.nonce {
			l.heartbeat, l.deadline = max(l.heartbeat, m.Heartbeat), m.Deadline
			l.answeredOn, l.answeredNonce = e.Conn, m.Nonce
			l.acknowledged(m)
		}
	case protocol.SettledAck:
		l.answered(m)
		if g := l.grants[m.BindingID]; g != nil && m.BindingID == l.binding {
			g.takenOver(m)
		}
	case protocol.BindingEnded:
		if m.BindingID == l.binding {
			l.rebind("")
		}
	}
}

// answered notes which settlements need not be repeated.
func (l *link) answered(m protocol.SettledAck) {
	if m.BindingID != l.binding {
		return
	}
	for seq := range l.pending {
		if seq <= m.UpTo || slices.Contains(m.Above, seq) {
			delete(l.pending, seq)
		}
	}
}

// checkRepeats is G-072: a settlement that nobody has taken over is said again, however quiet the worker has become.
func (v *consumerView) checkRepeats(l *link) {
	now := v.s.clock.read(v.w.now)
	for _, said := range l.pending {
		if now-said > repeatWithin {
			v.w.violate("I-10", "%s has not repeated a settlement of %s for more than %v", v.s.name, l.binding, repeatWithin)
			return
		}
	}
}

func (v *consumerView) action(action delivery.ConsumerAction) {
	switch a := action.(type) {
	case delivery.StartHandler:
		v.started(a)
	case delivery.CancelHandler: // it may have finished in the app's eyes already, and its word is refused all the same
		if r := v.s.runs[a.Run]; r != nil {
			r.canceled = true
			delete(v.finished, r.ref())
		}
	case delivery.ToController:
		if l := v.s.linkOn(a.Conn); l != nil {
			v.said(l, a.Message)
		} else {
			v.w.violate("action", "%s speaks on stream %d, which it never had", v.s.name, a.Conn)
		}
	case delivery.Reconnect:
		if l := v.s.linkOn(a.Conn); l != nil {
			l.left = a.Conn
		}
	case delivery.Drained:
		v.drained()
	}
}

func (v *consumerView) started(a delivery.StartHandler) {
	l := v.s.linkTo(a.Flow)
	id := a.Delivery.Job.MessageID
	if v.runIDs[a.Run] {
		v.w.violate("I-9", "%s: run %d was used before", v.s.name, a.Run)
	}
	v.runIDs[a.Run] = true
	if v.running[id] != nil {
		v.w.violate("I-9", "%s starts %s while run %d of it is still running", v.s.name, id, v.running[id].id)
	}
	if v.runs++; v.runs > v.concurrency {
		v.w.violate("I-9", "%s runs %d handlers, its concurrency is %d", v.s.name, v.runs, v.concurrency)
	}
	if !v.appReady {
		v.w.violate("I-9", "%s starts %s while the app is not ready", v.s.name, id)
	}
	if silent := v.s.clock.read(v.w.now) - v.s.clock.read(l.lastHeard); l.deadline > 0 && silent > l.deadline*7/10+startSlack {
		v.w.violate("I-9", "%s starts %s after %v of silence", v.s.name, id, silent)
	}
	if l.answeredOn != l.conn { // the controller takes what was not claimed there for not started
		v.w.violate("claim", "%s starts %s between its claims and their answer", v.s.name, id)
	}
	if a.Delivery.WorkerSeq <= l.lastStarted {
		v.w.violate("I-9", "%s starts worker sequence %d after %d", v.s.name, a.Delivery.WorkerSeq, l.lastStarted)
	}
	l.lastStarted = a.Delivery.WorkerSeq
	v.checkTurns(l)
	r := &run{id: a.Run, flow: l.flow, delivery: a.Delivery}
	v.running[id] = r
	f := l.flow.ledger.bySeq[a.Delivery.StoreSeq]
	if f == nil || f.ref.MessageID != id {
		if !v.w.profile.Volatile { // a volatile queue has forgotten it, the worker has not
			v.w.violate("I-7", "%s starts %s#%d, which was never stored", v.s.name, id, a.Delivery.StoreSeq)
		}
		return
	}
	if !sameJob(f.job, a.Delivery.Job) && !v.w.profile.Volatile {
		v.w.violate("I-7", "%s sees other bytes of %v than were stored", v.s.name, f.ref)
	}
	if v.finished[r.ref()] && !f.released && !v.w.profile.Volatile {
		v.w.violate("re-run", "%s starts %v, which it has finished", v.s.name, f.ref)
	}
	if f.running++; f.running > 1 {
		v.w.counts.ConcurrentRuns++
	}
}

// checkTurns is fairness among flows: while a delivery of one waits, others get a turn each, not all the slots.
func (v *consumerView) checkTurns(started *link) {
	for _, l := range v.s.links {
		switch {
		case l == started || !l.waits:
			l.passed = 0
		case v.s.clock.read(v.w.now)-v.s.clock.read(l.lastHeard) > l.deadline/2: // it may be in doubt
		default:
			if l.passed++; l.passed > 2*len(v.s.links)+v.concurrency {
				v.w.violate("fairness", "%s has started %d jobs of others while one of %s waits", v.s.name, l.passed, l.flow.title)
			}
		}
	}
}

// finish notes a success. A worker remembers the latest of each flow and no more; here they count over all flows, which asks for less.
func (v *consumerView) finish(r *run) {
	v.finished[r.ref()] = !r.canceled
	v.latest = append(v.latest, r.ref())
	if len(v.latest) > v.memory {
		delete(v.finished, v.latest[0])
		v.latest = v.latest[1:]
	}
}

// ended books the end of a handler, before the machine hears of it.
func (v *consumerView) ended(r *run, outcome protocol.Outcome) {
	id := r.delivery.Job.MessageID
	delete(v.running, id)
	v.runs--
	f := r.flow.ledger.bySeq[r.delivery.StoreSeq]
	if outcome == protocol.Confirmed {
		v.succeeded[flowJob{r.flow, id}], r.flow.ledger.succeeded[id] = true, true
		v.finish(r)
	}
	if f == nil || f.ref.MessageID != id {
		return
	}
	f.running--
	switch outcome {
	case protocol.Confirmed:
		if f.successes++; f.successes > 1 {
			v.w.counts.DuplicateRuns++
		}
	case protocol.Rejected:
		f.rejects++
	default: // no success, and no judgement of the job
	}
}

// died ends the running handlers' count; the app may go on, but not for this process.
func (v *consumerView) died() {
	for id, r := range v.running {
		if f := r.flow.ledger.bySeq[r.delivery.StoreSeq]; f != nil && f.ref.MessageID == id {
			f.running--
		}
	}
	clear(v.running)
}

func (v *consumerView) said(l *link, message protocol.FromWorker) {
	l.lastSaid = v.s.clock.read(v.w.now)
	switch m := message.(type) {
	case protocol.RegisterConsumer:
		if m.Window < 1 || m.Window > v.window {
			v.w.violate("I-4", "%s registers with window %d, at most %d is configured", v.s.name, m.Window, v.window)
		}
		l.nonce = m.Nonce
		for _, claim := range m.Claims {
			if claim.State == protocol.ClaimConfirmed && !v.succeeded[flowJob{l.flow, claim.MessageID}] {
				v.w.violate("I-8", "%s claims to have finished %s, which no handler of it did", v.s.name, claim.MessageID)
			}
		}
	case protocol.Request:
		if m.BindingID != l.binding {
			l.rebind(m.BindingID)
		}
		if m.RequestUpTo < m.ConfirmedSeq || m.ConfirmedSeq < 0 {
			v.w.violate("I-4", "%s demands %d above %d", v.s.name, m.RequestUpTo, m.ConfirmedSeq)
		}
		v.asked(l, m)
	case protocol.Ack:
		for _, s := range m.Settlements {
			v.settled(l, m.BindingID, s)
		}
	}
}

// rebind forgets the binding before, as the worker does.
func (l *link) rebind(binding string) {
	l.binding, l.demand, l.lastStarted = binding, 0, 0
	l.pending = map[int64]delivery.Now{}
	l.hold++
}

// settled checks that a settlement is true and the same as ever.
func (v *consumerView) settled(l *link, binding string, s protocol.Settlement) {
	key := settlementKey{l.hold, binding, s.WorkerSeq}
	if old, ok := v.settlements[key]; ok && (old.Outcome != s.Outcome || old.MessageID != s.MessageID || old.Attempt != s.Attempt) {
		v.w.violate("I-8", "%s settles %s %d of %s as %d after %d", v.s.name, s.MessageID, s.WorkerSeq, binding, s.Outcome, old.Outcome)
	}
	v.settlements[key] = s
	if binding == l.binding {
		l.pending[s.WorkerSeq] = v.s.clock.read(v.w.now)
	}
	if s.Outcome == protocol.Confirmed && !v.succeeded[flowJob{l.flow, s.MessageID}] {
		v.w.violate("I-8", "%s confirms %s, which no handler of it finished", v.s.name, s.MessageID)
	}
}

func (v *consumerView) drained() {
	status := v.s.machine.Status(v.s.clock.read(v.w.now))
	if v.runs > 0 || status.Buffered > 0 || !v.s.draining || v.heldForBindings(status) {
		v.w.violate("drain", "%s says it is drained: %d handlers run, %s", v.s.name, v.runs, describe(status))
	}
}

// heldForBindings reports whether something is unsettled of a binding that could still take it over.
func (v *consumerView) heldForBindings(status delivery.ConsumerStatus) bool {
	for _, part := range status.Flows {
		if part.Unsettled > 0 && part.BindingID != "" {
			return true
		}
	}
	return false
}

// after checks what the worker has on its hands.
func (v *consumerView) after() {
	calm := v.w.profile.Network.drop+v.w.profile.Network.reorder == 0 // else what is buffered may wait for a lost one
	now := v.s.clock.read(v.w.now)
	var sum delivery.Work
	for i, l := range v.s.links {
		part := v.s.machine.Work(now, i)
		sum.Running += part.Running
		sum.Buffered += part.Buffered
		sum.Unsettled += part.Unsettled
		l.waits = calm && part.Buffered > 0 && l.answeredNonce == l.nonce // what it asked before may forbid the start
		if part.Registered && v.w.step%64 == 0 {
			v.checkRepeats(l)
		}
		if silent := now - l.lastSaid; part.Registered && silent > l.heartbeat {
			v.w.violate("heartbeat", "%s has said nothing to %s for %v, it should in %v", v.s.name, l.flow.title, silent, l.heartbeat)
		}
	}
	if sum.Running < v.runs {
		v.w.violate("I-9", "%s says it runs %d handlers, the app runs %d", v.s.name, sum.Running, v.runs)
	}
	if v.s.machine.Draining() && sum.Buffered > 0 {
		v.w.violate("drain", "%s drains and keeps %d deliveries that it has not started", v.s.name, sum.Buffered)
	}
	if sum.Unsettled < sum.Running+sum.Buffered || sum.Buffered < 0 {
		v.w.violate("I-12", "%s has lost count: %s", v.s.name, describe(sum))
	}
	// Handlers of ended bindings keep running beside a full window of each flow, and a binding may begin with what two before it left.
	flows := len(v.s.links)
	if limit := 3 * flows * (v.window + v.concurrency); sum.Unsettled > limit || sum.Buffered > flows*v.window {
		v.w.violate("I-12", "%s holds %d unsettled, %d of them buffered, of a window of %d", v.s.name, sum.Unsettled, sum.Buffered, v.window)
	}
}

// repeatWithin is the longest pause of a worker's resend timer, and half of it for a registration on the way.
const repeatWithin = 45 * time.Second

// startSlack is how late a worker may notice that it should not start jobs any more.
const startSlack = 100 * time.Millisecond
