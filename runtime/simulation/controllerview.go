package simulation

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// controllerView watches one Controller from outside: what it was told and what it said.
type controllerView struct {
	p *producer
	w *flow

	snapshot delivery.Stats // of the machine after its latest step, once somebody has looked
	fresh    bool
	session  string
	loading  bool
	loadOp   delivery.OpID
	applying delivery.OpID // the ApplyBatch in flight, 0 if none
	answered delivery.OpID // the last that was answered
	reading  delivery.OpID
	batch    queue.Batch
	cursor   int64 // of the queue, as it was told last
	failures int
	calm     bool // no write of a settlement has failed since one succeeded
	// reconfigured: the memory budget has changed since it booted.
	reconfigured bool
	mostMemory   int64 // its largest budget so far
	widest       int   // the largest window that a worker was granted
	mostRoom     int   // and the most jobs that all workers may have had room for
	pauses       uint64
	bindings     map[string]*bindingView
	registered   map[delivery.ConnID]protocol.Incarnation // latest registration of a stream
	latest       map[string]*deliveryView                 // latest dispatch of a MessageID in this session
	endpoints    map[delivery.ConnID]*endpointView
	processes    map[string][]string   // boot nonces of a pod in the order in which they were bound
	accepted     map[queue.JobRef]bool // acknowledged by the producer, and heard in time

	dispatches []*deliveryView               // of this step
	gone       map[protocol.Incarnation]bool // it was told that the process is over, after it had been bound
	finished   map[queue.JobRef]bool         // heard as confirmed, on the stream that counts, by this process
	owed       map[queue.JobRef]bool         // had a try that failed, which is not written yet
	excused    uint64                        // how often a revision was paused, when tries were last owed
	returned   map[queue.JobRef]int          // came back untouched and wait for another worker; the attempt that they wait for

	claims map[delivery.ConnID][]protocol.Claim // of the latest registration of a stream, those that are true
	proven map[int64]bool                       // store sequences that a worker proved finished
	lost   map[string]int                       // how often a run of a MessageID was claimed lost since its latest dispatch
	guards map[int64][]guard
}

// bindingView is a binding as its messages show it.
type bindingView struct {
	ref         protocol.BindingRef
	incarnation protocol.Incarnation
	conn        delivery.ConnID
	window      int           // the largest ever granted
	demand      int64         // the highest RequestUpTo heard
	sent        int64         // the highest worker sequence dispatched
	heard       int64         // how many of those were settled by the worker
	taken       int64         // SettledAck watermark
	started     int64         // the highest worker sequence that the worker reported as started
	ended       bool          // the worker was told so
	beat        delivery.Now  // when it was acknowledged or sent a heartbeat last, by the producer's clock
	heartbeat   time.Duration // the longest it was ever told
	deliveries  map[int64]*deliveryView
}

type deliveryView struct {
	binding *bindingView
	seq     int64
	ref     queue.JobRef
	attempt int
	heard   bool // a matching settlement has come in
	sure    bool // on the stream that the controller listens to
	outcome protocol.Outcome
	ticket  protocol.Ticket
	taken   bool // and the controller has taken it over
}

type endpointView struct {
	credits  int
	session  string
	upTo     uint64
	idle     int                       // open grants when the last one had to be repeated
	answered map[uint64]queue.JobRef   // tokens that carried a job into the queue
	digests  map[uint64][]queue.Digest // all bodies that came with a token: misuse brings several
	offers   map[uint64]offer          // tokens whose job was taken and is not acknowledged yet
}

// offer is the job that a token carried first.
type offer struct {
	id     string
	digest queue.Digest
	stored bool
}

// storing counts the submissions that were taken and have no answer yet.
func (ep *endpointView) storing() (n int) {
	for _, o := range ep.offers {
		if !o.stored {
			n++
		}
	}
	return n
}

func newControllerView(p *producer) *controllerView {
	return &controllerView{
		p: p, w: p.w, loading: true, mostMemory: p.config.MemoryBytes, registered: map[delivery.ConnID]protocol.Incarnation{},
		endpoints: map[delivery.ConnID]*endpointView{}, processes: map[string][]string{},
		bindings: map[string]*bindingView{}, latest: map[string]*deliveryView{},
		accepted: map[queue.JobRef]bool{}, finished: map[queue.JobRef]bool{}, owed: map[queue.JobRef]bool{}, returned: map[queue.JobRef]int{}, gone: map[protocol.Incarnation]bool{},
		claims: map[delivery.ConnID][]protocol.Claim{}, proven: map[int64]bool{}, lost: map[string]int{}, guards: map[int64][]guard{},
	}
}

// stats is the machine's snapshot, made once a step at most.
func (v *controllerView) stats() *delivery.Stats {
	if !v.fresh {
		v.p.machine.Snapshot(&v.snapshot)
		v.fresh = true
	}
	return &v.snapshot
}

// newest reports whether this controller owns the queue: what an older one believes is its own affair.
func (v *controllerView) newest() bool { return v.p.epoch != 0 && v.p.epoch == v.w.ledger.epoch }

// before looks at an event on its way in.
func (v *controllerView) before(event delivery.Event) {
	v.fresh = false
	switch e := event.(type) {
	case delivery.ProducerAttached:
		v.endpoints[e.Conn] = &endpointView{
			credits: e.MaxCredits, answered: map[uint64]queue.JobRef{}, digests: map[uint64][]queue.Digest{}, offers: map[uint64]offer{},
		}
	case delivery.ProducerDetached:
		delete(v.endpoints, e.Conn)
	case delivery.ProducerMessage:
		if m, ok := e.Message.(protocol.Produced); ok && v.endpoints[e.Conn] != nil && m.Session == v.endpoints[e.Conn].session {
			heard := v.endpoints[e.Conn].digests
			if !slices.Contains(heard[m.Token], e.Digest) {
				heard[m.Token] = append(heard[m.Token], e.Digest)
			}
		}
		if m, ok := e.Message.(protocol.StoredAck); ok {
			v.acknowledged(e.Conn, m)
		}
	case delivery.WorkerMessage:
		v.fromWorker(e)
	case delivery.WorkerDisconnected:
		for _, b := range v.bindings {
			if b.conn == e.Conn {
				b.conn = 0
			}
		}
	case delivery.Reconfigure:
		v.reconfigured = true
		v.mostMemory = max(v.mostMemory, e.Config.MemoryBytes)
	case delivery.WorkerGone:
		if len(v.processes[e.PodUID]) > 0 { // else it knows no such pod, and need not remember
			v.gone[protocol.Incarnation{PodUID: e.PodUID, BootNonce: e.BootNonce}] = true
		}
	case delivery.Redriven:
		v.redriven(e)
	}
}

// redriven notes that the controller is told of a person's decision, if it is about what it has loaded: from here on it must hold the job.
func (v *controllerView) redriven(e delivery.Redriven) {
	delete(v.latest, e.Row.MessageID)
	delete(v.finished, e.Row.JobRef)
	f := v.w.ledger.bySeq[e.Row.StoreSeq]
	if v.loading || e.Epoch != v.p.epoch || !v.newest() || f == nil || f.ref != e.Row.JobRef || f.settled {
		return
	}
	f.untold, f.holder = false, v
}

// acknowledged notes what the controller must write down as accepted.
func (v *controllerView) acknowledged(conn delivery.ConnID, m protocol.StoredAck) {
	ep := v.endpoints[conn]
	if ep == nil || v.loading || m.Session != v.session || m.Session != ep.session {
		return
	}
	if ref := ep.answered[m.Token]; ref.StoreSeq != 0 && ref.MessageID == m.MessageID {
		v.accepted[ref] = true
	}
	if o := ep.offers[m.Token]; o.stored && o.id == m.MessageID {
		delete(ep.offers, m.Token)
	}
}

func (v *controllerView) fromWorker(e delivery.WorkerMessage) {
	switch m := e.Message.(type) {
	case protocol.RegisterConsumer:
		v.registered[e.Conn] = m.Incarnation
		v.claimed(e.Conn, m.Claims)
	case protocol.Request:
		if b := v.known(m.BindingRef); b != nil {
			b.demand = max(b.demand, m.RequestUpTo)
			if m.CheckRange(b.sent) == nil {
				b.noteStarted(e.Conn, m.StartedSeq)
			}
		}
	case protocol.Heartbeat:
		if b := v.known(m.BindingRef); b != nil {
			b.noteStarted(e.Conn, m.StartedSeq)
		}
	case protocol.Ack:
		if b := v.known(m.BindingRef); b != nil {
			b.noteStarted(e.Conn, m.StartedSeq)
			legal := m.StartedSeq >= 0 && m.StartedSeq <= b.sent
			for _, s := range m.Settlements {
				if d := b.settle(s, legal && b.listens(e.Conn)); d != nil {
					v.learned(d, s)
				}
			}
		}
	}
}

func (v *controllerView) known(ref protocol.BindingRef) *bindingView {
	if b := v.bindings[ref.BindingID]; b != nil && b.ref == ref {
		return b
	}
	return nil
}

// listens reports whether the controller takes what this stream says of the binding.
func (b *bindingView) listens(conn delivery.ConnID) bool { return !b.ended && b.conn == conn }

func (b *bindingView) noteStarted(conn delivery.ConnID, seq int64) {
	if b.listens(conn) && seq <= b.sent {
		b.started = max(b.started, seq)
	}
}

// settle returns the delivery that the settlement is news about, as far as the controller listens.
func (b *bindingView) settle(s protocol.Settlement, sure bool) *deliveryView {
	d := b.deliveries[s.WorkerSeq]
	if d == nil || d.heard && (d.sure || !sure) || d.ref.MessageID != s.MessageID || d.attempt != s.Attempt ||
		s.Outcome < protocol.Confirmed || s.Outcome > protocol.Delayed {
		return nil
	}
	if !d.heard {
		b.heard++
	}
	d.heard, d.outcome, d.sure = true, s.Outcome, sure
	if !sure {
		return nil
	}
	return d
}

// learned notes what a settlement that counts obliges the controller to.
func (v *controllerView) learned(d *deliveryView, s protocol.Settlement) {
	if v.proven[d.ref.StoreSeq] {
		return // it is complete by another worker's claim
	}
	switch s.Outcome {
	case protocol.Confirmed:
		v.finished[d.ref] = true
	case protocol.Nacked, protocol.Abandoned:
		v.owed[d.ref] = true
	case protocol.HandedBack:
		if s.WorkerSeq > d.binding.started {
			v.returned[d.ref] = d.attempt
		}
	default: // neither
	}
}

// after looks at what the event made the controller do.
func (v *controllerView) after(event delivery.Event, actions []delivery.Action) {
	if v.failures > 0 && len(actions) > 0 {
		v.w.violate("I-11", "%s acts after it failed: %s", v.p.name, describe(actions[0]))
	}
	switch e := event.(type) {
	case delivery.Loaded:
		v.loaded(e)
	case delivery.Applied:
		v.applied(e)
	case delivery.JobsRead:
		if e.Op == v.reading {
			v.reading = 0
		}
	case delivery.ProducerMessage:
		v.offered(e, actions)
	}
	dispatched := false
	for _, action := range actions {
		switch a := action.(type) {
		case delivery.LoadQueue:
			v.loading, v.loadOp = true, a.Op
		case delivery.ApplyBatch:
			v.apply(a)
		case delivery.ReadJobs:
			if v.reading != 0 {
				v.w.violate("action", "%s has two reads in flight", v.p.name)
			}
			v.reading = a.Op
		case delivery.ToWorker:
			dispatched = v.toWorker(a) || dispatched
		case delivery.ToProducer:
			v.toProducer(a)
		case delivery.JobSettled:
			v.jobSettled(a)
		case delivery.Failed:
			v.failed(a)
		}
	}
	v.checkOrder()
	v.dispatches = v.dispatches[:0]
	if len(v.owed) > 0 {
		v.excusePaused()
	}
	if e, ok := event.(delivery.Applied); ok {
		v.checkAnswer(e)
	}
	if v.failures == 0 && !v.loading {
		v.checkHeld()
		v.checkStats(dispatched)
	}
}

// excusePaused forgets the failures of a paused revision, which are its own; also of one that a success in the same message has let go on.
func (v *controllerView) excusePaused() {
	s := v.stats()
	if len(s.Paused) > 0 || s.Pauses != v.excused {
		clear(v.owed)
	}
	v.excused = s.Pauses
}

// checkAnswer is B-070: a fenced writer ends at once. And when the lane rests after a write that succeeded, no try that
// failed is left unwritten.
func (v *controllerView) checkAnswer(e delivery.Applied) {
	if v.answered != e.Op {
		return // a repeat
	}
	calm := v.calm
	b := v.batch
	v.calm = e.Err == nil && (calm || len(b.Attempts)+len(b.DeadLetters)+len(b.Confirms) > 0)
	switch {
	case errors.Is(e.Err, queue.ErrFenced) && v.failures == 0:
		v.w.violate("I-5", "%s was fenced and goes on", v.p.name)
	case calm && e.Err == nil && v.applying == 0 && !v.loading && len(v.owed) > 0 && v.stats().IsolatedConfirms == 0:
		v.w.violate("attempts", "%s has %d failed tries that it does not write", v.p.name, len(v.owed))
	}
}

func (v *controllerView) loaded(e delivery.Loaded) {
	if e.Err != nil || e.Op != v.loadOp {
		return
	}
	v.loadOp = 0
	v.loading, v.reading = false, 0
	v.p.epoch = e.Epoch
	if v.newest() {
		v.guardJobs(e)
	}
	v.session, v.cursor = v.stats().Session, e.State.Cursor
	v.bindings, v.latest = map[string]*bindingView{}, map[string]*deliveryView{}
	clear(v.owed) // with the load, what the queue says of tries holds
	clear(v.returned)
	for _, ep := range v.endpoints {
		ep.session = ""
		clear(ep.offers)
	}
	if v.newest() {
		for _, f := range v.w.ledger.open {
			f.holder = nil
		}
		for _, row := range e.Rows {
			if f := v.w.ledger.bySeq[row.StoreSeq]; f != nil && f.ref == row.JobRef && !f.settled {
				f.untold, f.holder = false, v
			}
		}
	}
}

func (v *controllerView) applied(e delivery.Applied) {
	if e.Op != v.applying {
		return // a repeat
	}
	v.answered, v.applying = e.Op, 0
	if e.Err != nil {
		return
	}
	if len(v.batch.Stores)+len(v.batch.Accepts) > 0 {
		v.cursor = e.Result.Cursor
	}
	if !v.newest() {
		return
	}
	for _, s := range v.batch.Stores {
		if f := v.w.ledger.byID[s.Job.MessageID]; f != nil && !f.settled && !f.untold {
			f.holder = v
		}
	}
}

func (v *controllerView) apply(a delivery.ApplyBatch) {
	if v.applying != 0 {
		v.w.violate("action", "%s has two batches in flight", v.p.name)
	}
	if a.Epoch != v.p.epoch {
		v.w.violate("I-5", "%s writes under epoch %d, it was given %d", v.p.name, a.Epoch, v.p.epoch)
	}
	if a.Batch.Empty() {
		v.w.violate("action", "%s writes an empty batch", v.p.name)
	}
	if len(a.Batch.Stores) > 0 && a.Batch.Cursor != v.cursor {
		v.w.violate("I-6", "%s appends after cursor %d, it was told %d", v.p.name, a.Batch.Cursor, v.cursor)
	}
	for _, ref := range a.Batch.Accepts {
		if !v.accepted[ref] {
			v.w.violate("I-8", "%s writes that the producer has forgotten %v, which it never said", v.p.name, ref)
		}
	}
	v.applying, v.batch = a.Op, a.Batch
	for _, r := range a.Batch.Attempts {
		delete(v.owed, r.JobRef)
	}
	for _, r := range a.Batch.DeadLetters {
		delete(v.owed, r.JobRef)
	}
	for _, r := range a.Batch.Confirms {
		delete(v.owed, r)
	}
}

// checkHeld is I-1 for the live part: the controller must hold every open job that it was told of.
func (v *controllerView) checkHeld() {
	for _, f := range v.w.ledger.open {
		if f.holder != v {
			continue
		}
		if ref, ok := v.p.machine.Holds(f.ref); !ok || ref != f.ref {
			v.w.violate("I-1", "%s was told of %v and holds %v", v.p.name, f.ref, ref)
			return
		}
	}
}

// countPolicies notes what the controller keeps away from jobs.
func (v *controllerView) countPolicies(s *delivery.Stats) {
	if s.Pauses > v.pauses {
		v.w.counts.Faults[RevisionPaused] += s.Pauses - v.pauses
		v.pauses = s.Pauses
	}
	for _, q := range s.Quarantined {
		if q.Flapping {
			v.w.count(FlappingQuarantined)
			break
		}
	}
}

// checkStats is the part of I-12 and of the credit rule that the snapshot shows.
func (v *controllerView) checkStats(dispatched bool) {
	if !dispatched && v.w.step%8 != 0 {
		return
	}
	s := v.stats()
	v.countPolicies(s)
	inFlight, free := 0, 0
	for _, b := range s.Bindings {
		inFlight, free = inFlight+b.InFlight, free+b.FreeDemand
		v.checkBeat(b)
	}
	if free != s.FreeDemand {
		v.w.violate("I-12", "%s counts a free demand of %d, its bindings have %d", v.p.name, s.FreeDemand, free)
	}
	if inFlight != s.InFlight {
		v.w.violate("I-2", "%s counts %d jobs in flight, its bindings hold %d", v.p.name, s.InFlight, inFlight)
	}
	if s.BacklogJobs < 0 || s.DelayedJobs < 0 || s.InFlight < 0 || s.FreeDemand < 0 || s.OpenGrants < 0 || s.MemoryBytes < 0 ||
		s.BacklogBytes < 0 || s.DirtyConfirms < 0 || s.DeadLetters < 0 {
		v.w.violate("I-12", "%s has a negative figure: %s", v.p.name, describe(*s))
	}
	if v.newest() {
		held := s.BacklogJobs + s.DelayedJobs + s.InFlight + s.DirtyConfirms
		if open := len(v.w.ledger.open); s.BacklogJobs+s.DelayedJobs+s.InFlight > open+len(v.batch.Confirms)+len(v.batch.DeadLetters) {
			v.w.violate("I-12", "%s has %d jobs live, %d are open in the queue: %s", v.p.name, held, open, describe(*s))
		}
	}
	// Payloads in memory: the budget, and jobs for which workers waited.
	if most := v.mostMemory + int64(v.mostRoom)*maxPayload; s.MemoryBytes > most {
		v.w.violate("I-12", "%s keeps %d payload bytes, at most %d are allowed", v.p.name, s.MemoryBytes, most)
	}
}

// clock is the time of the producer.
func (v *controllerView) clock() delivery.Now { return v.p.clock.read(v.w.now) }

// checkBeat: a bound worker hears a heartbeat in every period, for whatever is due by the clock is done in any step.
func (v *controllerView) checkBeat(s delivery.BindingStats) {
	b := v.bindings[s.BindingID]
	if b == nil || !s.Connected {
		return
	}
	if silent := v.clock() - b.beat; silent > b.heartbeat {
		v.w.violate("heartbeat", "%s has sent no heartbeat in binding %s for %v, it promised one in %v", v.p.name, s.BindingID, silent, b.heartbeat)
	}
}

// toWorker checks one message to a worker and reports whether it dispatches.
func (v *controllerView) toWorker(a delivery.ToWorker) bool {
	switch m := a.Message.(type) {
	case protocol.RegistrationAck:
		v.bound(a.Conn, m)
	case protocol.BindingEnded:
		if b := v.bindings[m.BindingID]; b != nil && b.conn == a.Conn {
			b.ended = true
		}
	case protocol.Heartbeat:
		if b := v.bindings[m.BindingID]; b != nil && b.conn == a.Conn {
			b.beat = v.clock()
		}
	case protocol.SettledAck:
		v.settledAck(m)
	case protocol.SequencedMessage:
		b := v.bindings[m.BindingID]
		if b == nil {
			v.w.violate("I-3", "%s dispatches in binding %s, which was never acknowledged", v.p.name, m.BindingID)
			return false
		}
		if b.conn != a.Conn {
			v.w.violate("I-3", "%s dispatches in binding %s on stream %d, it registered on %d", v.p.name, m.BindingID, a.Conn, b.conn)
		}
		for _, d := range m.Deliveries {
			v.dispatched(b, d)
		}
		return true
	}
	return false
}

func (v *controllerView) bound(conn delivery.ConnID, m protocol.RegistrationAck) {
	incarnation, ok := v.registered[conn]
	b := v.bindings[m.BindingID]
	v.widest = max(v.widest, m.Window)
	v.mostRoom = max(v.mostRoom, max(len(v.w.pods), len(v.bindings)+1)*v.widest)
	switch {
	case !ok:
		v.w.violate("I-3", "%s acknowledges a registration that stream %d never sent", v.p.name, conn)
		return
	case m.Session != v.session:
		v.w.violate("I-3", "%s acknowledges in session %q, it is in %q", v.p.name, m.Session, v.session)
	case b == nil:
		b = &bindingView{ref: protocol.BindingRef{BindingID: m.BindingID, Secret: m.Secret}, incarnation: incarnation, deliveries: map[int64]*deliveryView{}}
		v.bindings[m.BindingID] = b
		v.processBound(incarnation)
		if v.gone[incarnation] {
			v.w.violate("I-2", "%s binds %v, of which it was told that it is over", v.p.name, incarnation)
		}
		if m.NextSeq != 1 || m.Secret == "" {
			v.w.violate("I-3", "%s opens binding %s at sequence %d", v.p.name, m.BindingID, m.NextSeq)
		}
	case b.incarnation != incarnation || b.ref.Secret != m.Secret:
		v.w.violate("I-3", "%s gives binding %s of %v to %v", v.p.name, m.BindingID, b.incarnation, incarnation)
	case m.NextSeq <= b.taken || m.NextSeq > b.sent+1:
		v.w.violate("I-3", "%s re-opens binding %s at %d, it has sent %d", v.p.name, m.BindingID, m.NextSeq, b.sent)
	}
	for seq := b.taken + 1; seq < m.NextSeq; seq++ { // what a claim completed while its worker had no stream
		if d := b.deliveries[seq]; d != nil && !d.heard && v.proven[d.ref.StoreSeq] {
			d.heard = true
			b.heard++
		}
	}
	b.conn = conn
	b.window = max(b.window, m.Window)
	b.beat, b.heartbeat = v.clock(), max(b.heartbeat, m.Heartbeat)
	if m.Epoch != uint64(v.p.epoch) || m.Queue == "" {
		v.w.violate("I-5", "%s acknowledges under epoch %d of %q, it was given %d", v.p.name, m.Epoch, m.Queue, v.p.epoch)
	}
	for _, a := range m.Adopted {
		v.adopted(conn, b, a)
	}
}

// processBound is B-089: a process that another one of its pod has replaced is over, whatever of it is still on its way.
func (v *controllerView) processBound(i protocol.Incarnation) {
	boots := v.processes[i.PodUID]
	at := slices.Index(boots, i.BootNonce)
	if at >= 0 && at < len(boots)-1 {
		v.w.violate("I-2", "%s binds process %s of %s again, which %s has replaced", v.p.name, i.BootNonce, i.PodUID, boots[len(boots)-1])
	}
	if at < 0 {
		v.processes[i.PodUID] = append(boots, i.BootNonce)
	}
}

func (v *controllerView) settledAck(m protocol.SettledAck) {
	b := v.bindings[m.BindingID]
	if b == nil {
		v.w.violate("I-8", "%s takes over settlements of an unknown binding %s", v.p.name, m.BindingID)
		return
	}
	take := func(seq int64) {
		d := b.deliveries[seq]
		if d == nil || !d.heard && !v.proven[d.ref.StoreSeq] {
			v.w.violate("I-8", "%s says it took over settlement %d of %s, which never came", v.p.name, seq, m.BindingID)
			return
		}
		if !d.heard { // another worker had finished it
			d.heard = true
			b.heard++
		}
		d.taken = true
		if f := v.w.ledger.bySeq[d.ref.StoreSeq]; f != nil && f.ref == d.ref && (!f.settled || f.dead) { // a rival may have made a dead letter of it
			f.released = true
		}
		v.checkDurable(d)
	}
	for ; b.taken < m.UpTo; b.taken++ {
		take(b.taken + 1)
	}
	for _, seq := range m.Above {
		take(seq)
	}
}

// checkDurable looks at durability towards workers: one that may forget a success leaves it in the queue, or with a controller that set
// it apart.
func (v *controllerView) checkDurable(d *deliveryView) {
	f := v.w.ledger.bySeq[d.ref.StoreSeq]
	if d.outcome == protocol.Confirmed && d.sure && v.newest() && f != nil && f.confirms == 0 && v.stats().IsolatedConfirms == 0 {
		v.w.violate("I-8", "%s lets a worker forget that it finished %v, which is not durable", v.p.name, d.ref)
	}
}

// dispatched checks one delivery: I-2, I-3, I-4, I-7 and the attempt.
func (v *controllerView) dispatched(b *bindingView, d protocol.Delivery) {
	ref := queue.JobRef{MessageID: d.Job.MessageID, StoreSeq: d.StoreSeq}
	f := v.w.ledger.bySeq[d.StoreSeq]
	if f == nil || f.ref != ref {
		if v.newest() {
			v.w.violate("I-7", "%s dispatches %v, which was never stored", v.p.name, ref)
		}
		return
	}
	if !sameJob(f.job, d.Job) {
		v.w.violate("I-7", "%s dispatches other bytes of %v than were stored", v.p.name, ref)
	}
	if again := b.deliveries[d.WorkerSeq]; again != nil {
		if again.ref != ref || again.attempt != d.Attempt {
			v.w.violate("I-3", "%s resends %d of %s as %v, it was %v", v.p.name, d.WorkerSeq, b.ref.BindingID, ref, again.ref)
		}
		return
	}
	if d.WorkerSeq != b.sent+1 {
		v.w.violate("I-3", "%s sends %d of %s after %d", v.p.name, d.WorkerSeq, b.ref.BindingID, b.sent)
	}
	b.sent = max(b.sent, d.WorkerSeq)
	if b.sent > b.demand {
		v.w.violate("I-3", "%s sends %d of %s, the demand ends at %d", v.p.name, b.sent, b.ref.BindingID, b.demand)
	}
	if inFlight := b.sent - b.heard; inFlight > int64(b.window) {
		v.w.violate("I-4", "%s has %d in flight in %s, the window is %d", v.p.name, inFlight, b.ref.BindingID, b.window)
	}
	fresh := &deliveryView{binding: b, seq: d.WorkerSeq, ref: ref, attempt: d.Attempt, ticket: d.Ticket}
	b.deliveries[d.WorkerSeq] = fresh
	v.w.ledger.gave(b.incarnation.PodUID, ref, d.Attempt, d.Ticket)
	v.checkGuards(b, ref)
	v.checkElsewhere(fresh, d)
	v.latest[ref.MessageID] = fresh
	v.dispatches = append(v.dispatches, fresh)
	if v.finished[ref] && v.newest() {
		v.w.violate("I-2", "%s dispatches %v again, whose success it has heard", v.p.name, ref)
	}
	f.dispatches++
	if v.newest() && f.settled {
		v.w.violate("I-2", "%s dispatches %v, which is settled", v.p.name, ref)
	}
}

// checkOrder is B-165: what came back untouched goes before everything that was stored later. It can be seen from outside
// where all payloads are in memory. A probe of a broken revision prefers jobs that failed less often.
func (v *controllerView) checkOrder() {
	for _, d := range v.dispatches {
		delete(v.returned, d.ref)
	}
	for earlier, waitsFor := range v.returned {
		for _, d := range v.dispatches {
			_, held := v.p.machine.Holds(earlier)
			if held && earlier.StoreSeq < d.ref.StoreSeq && waitsFor <= d.attempt && v.p.config.MemoryBytes >= 1<<20 && !v.reconfigured {
				v.w.violate("order", "%s dispatches %v before %v, which came back", v.p.name, d.ref, earlier)
				return
			}
		}
	}
}

// checkElsewhere is I-2: the job's previous delivery of this session must be over.
func (v *controllerView) checkElsewhere(now *deliveryView, d protocol.Delivery) {
	before := v.latest[now.ref.MessageID]
	if before == nil || before.ref != now.ref {
		if now.attempt < 1 {
			v.w.violate("I-3", "%s dispatches %v as attempt %d", v.p.name, now.ref, now.attempt)
		}
		return
	}
	if !d.Redelivered {
		v.w.violate("I-3", "%s dispatches %v again and does not say so", v.p.name, now.ref)
	}
	v.checkAttempt(before, now)
	switch {
	case before.taken && before.sure && before.outcome == protocol.Confirmed:
		v.w.violate("I-2", "%s dispatches %v again, whose confirm it took over", v.p.name, now.ref)
	case !before.heard && v.alive(before.binding):
		v.w.violate("I-2", "%s dispatches %v in %s and it is still in %s", v.p.name, now.ref, now.binding.ref.BindingID, before.binding.ref.BindingID)
	}
}

// checkAttempt says what counts as an attempt, as far as it can be known from outside.
func (v *controllerView) checkAttempt(before, now *deliveryView) {
	counted := now.attempt - before.attempt
	started := before.seq <= before.binding.started
	wrong := counted < 0 || counted > 1
	switch {
	case before.sure && (before.outcome == protocol.Nacked || before.outcome == protocol.Abandoned):
		// While a revision is paused, its failures cost nothing but those of the probes.
		wrong = counted != 1 && (counted != 0 || v.stats().Pauses == 0)
	case before.sure && (before.outcome == protocol.HandedBack || before.outcome == protocol.Delayed):
		wrong = counted != 0
	case !before.heard && started: // its worker was lost while it ran
		wrong = counted != 1
	case !before.heard && before.binding.ended:
		wrong = counted != 0
	}
	if lost := v.lost[now.ref.MessageID]; lost > 0 { // earlier deliveries turned out to be tries, perhaps of another controller
		wrong = wrong && (counted < 1 || counted > 1+lost)
		delete(v.lost, now.ref.MessageID)
	}
	if f := v.w.ledger.bySeq[now.ref.StoreSeq]; counted == 0 && f != nil && v.newest() &&
		(!before.heard || before.sure && before.outcome == protocol.HandedBack && started) {
		v.w.ledger.wasted(f)
	}
	if wrong {
		v.w.violate("attempts", "%s dispatches %v as attempt %d after %d, settled %d (heard %v), started %v",
			v.p.name, now.ref, now.attempt, before.attempt, before.outcome, before.heard, started)
	}
}

func (v *controllerView) alive(b *bindingView) bool {
	for _, s := range v.stats().Bindings {
		if s.BindingID == b.ref.BindingID {
			return true
		}
	}
	return false
}

func (v *controllerView) toProducer(a delivery.ToProducer) {
	ep := v.endpoints[a.Conn]
	if ep == nil {
		return // it has just left
	}
	switch m := a.Message.(type) {
	case protocol.RequestNext:
		v.granted(ep, m)
	case protocol.Stored:
		v.stored(ep, m)
	case protocol.DeliveryConfirmed:
		if f := v.w.ledger.bySeq[m.StoreSeq]; v.newest() && (f == nil || f.ref.MessageID != m.MessageID || f.confirms == 0) {
			v.w.violate("I-8", "%s says that %s is confirmed, which is not durable", v.p.name, m.MessageID)
		}
	}
}

// offered is G-032 and G-034: the first job of a token stands until it is acknowledged, and any other one is refused.
func (v *controllerView) offered(e delivery.ProducerMessage, actions []delivery.Action) {
	m, ok := e.Message.(protocol.Produced)
	ep := v.endpoints[e.Conn]
	if !ok || ep == nil || v.loading || m.Session != v.session || m.Session != ep.session {
		return
	}
	refused := slices.ContainsFunc(actions, func(a delivery.Action) bool {
		to, ok := a.(delivery.ToProducer)
		r, isRefusal := to.Message.(protocol.Refused)
		return ok && isRefusal && to.Conn == e.Conn && r.Token == m.Token && r.MessageID == m.Job.MessageID
	})
	first, known := ep.offers[m.Token]
	_, acknowledged := ep.answered[m.Token]
	switch {
	case known && (first.id != m.Job.MessageID || first.digest != e.Digest) != refused:
		v.w.violate("handshake", "%s was offered %s by token %d, which carried %s, and refused it: %v", v.p.name, m.Job.MessageID, m.Token, first.id, refused)
	case !known && !acknowledged && !refused:
		ep.offers[m.Token] = offer{id: m.Job.MessageID, digest: e.Digest}
	}
}

// granted checks the credit rule when it gives more (G-050).
func (v *controllerView) granted(ep *endpointView, m protocol.RequestNext) {
	if m.Session != v.session {
		v.w.violate("credit", "%s grants in session %q, it is in %q", v.p.name, m.Session, v.session)
	}
	if ep.session != m.Session {
		ep.session, ep.upTo, ep.idle = m.Session, 0, 0
		clear(ep.answered)
		clear(ep.digests)
		clear(ep.offers)
	}
	if m.UpTo <= ep.upTo {
		ep.idle = int(ep.upTo) - len(ep.answered)
		return
	}
	ep.upTo, ep.idle = m.UpTo, 0
	if open := int(ep.upTo) - len(ep.answered); open > ep.credits {
		v.w.violate("credit", "%s has %d open grants at an endpoint that wants %d", v.p.name, open, ep.credits)
	}
	s, c := v.stats(), v.p.config
	ahead := s.BacklogJobs + s.DelayedJobs
	for _, other := range v.endpoints {
		ahead += other.storing()
	}
	allowed := s.FreeDemand - ahead
	switch {
	case c.BacklogJobs > 0:
		allowed = max(allowed, c.BacklogJobs-ahead)
	case c.BacklogBytes > 0:
		return
	}
	// Grants that an endpoint leaves unused do not count: it may have nothing to submit, while others have.
	for _, other := range v.endpoints {
		allowed += min(other.idle, int(other.upTo)-len(other.answered))
	}
	if s.OpenGrants > allowed {
		v.w.violate("credit", "%s has %d open grants, %d are allowed: free demand %d, ahead %d, backlog %d",
			v.p.name, s.OpenGrants, allowed, s.FreeDemand, ahead, c.BacklogJobs)
	}
	if s.CreditWithheld {
		v.w.violate("credit", "%s grants while it withholds credit", v.p.name)
	}
}

// stored checks the answer to a submission against what is durable.
func (v *controllerView) stored(ep *endpointView, m protocol.Stored) {
	if m.Session == ep.session {
		ep.answered[m.Token] = queue.JobRef{MessageID: m.MessageID, StoreSeq: m.StoreSeq}
		if o, open := ep.offers[m.Token]; open {
			o.stored = true
			ep.offers[m.Token] = o
		}
		if m.Verdict == protocol.BodyMismatch {
			ep.answered[m.Token] = queue.JobRef{} // nothing of this token is in the queue
		}
	}
	if !v.newest() {
		return
	}
	f := v.w.ledger.bySeq[m.StoreSeq]
	switch {
	case f == nil || f.ref.MessageID != m.MessageID:
		v.w.violate("I-8", "%s says that %s is stored at %d, which is not durable", v.p.name, m.MessageID, m.StoreSeq)
	case m.Verdict == protocol.AlreadyConfirmed && (!f.settled || !f.finished(v.w.ledger) && f.confirms > 0):
		v.w.violate("I-8", "%s says that %s is confirmed, no handler finished it", v.p.name, m.MessageID)
	case m.Session == ep.session && !slices.ContainsFunc(ep.digests[m.Token], func(d queue.Digest) bool {
		return (d == f.digest) != (m.Verdict == protocol.BodyMismatch)
	}):
		v.w.violate("I-7", "%s answers %s with verdict %d", v.p.name, m.MessageID, m.Verdict)
	}
}

func (v *controllerView) jobSettled(a delivery.JobSettled) {
	f := v.w.ledger.bySeq[a.Ref.StoreSeq]
	if f == nil || f.ref != a.Ref || !f.settled && f.redrives == 0 { // a person may have been quicker than the answer
		if v.newest() {
			v.w.violate("I-8", "%s says that %v is settled, which is not durable", v.p.name, a.Ref)
		}
		return
	}
	if !a.DeadLettered && !f.finished(v.w.ledger) {
		v.w.violate("I-8", "%s says that %v is confirmed, no handler finished it", v.p.name, a.Ref)
	}
}

// failed checks that a terminal failure is the first and has a cause.
func (v *controllerView) failed(f delivery.Failed) {
	if v.failures++; v.failures > 1 {
		v.w.violate("I-11", "%s failed twice", v.p.name)
	}
	if !errors.Is(f.Cause, queue.ErrFenced) || v.newest() {
		v.w.violate("I-11", "%s failed at %s without a cause: %v", v.p.name, f.Stage, f.Cause)
	}
}

// finish checks that nothing is left in a controller when everything is done (I-12).
func (v *controllerView) finish() {
	s := v.stats()
	if n := s.BacklogJobs + s.DelayedJobs + s.InFlight + s.DirtyConfirms; n > 0 || s.MemoryBytes > 0 || s.BacklogBytes > 0 {
		v.w.violate("I-12", "%s is not empty at the end: %s", v.p.name, describe(*s))
	}
	if dead := v.w.ledger.dead(); v.newest() && s.DeadLetters != dead {
		v.w.violate("I-1", "%s counts %d dead letters at the end, there are %d", v.p.name, s.DeadLetters, dead)
	}
	for _, ref := range slices.SortedFunc(maps.Keys(v.accepted), func(a, b queue.JobRef) int { return cmp.Compare(a.StoreSeq, b.StoreSeq) }) {
		if f := v.w.ledger.bySeq[ref.StoreSeq]; f != nil && f.ref == ref && !f.accepted {
			v.w.violate("I-10", "%s heard that the producer has forgotten %v and never wrote it down", v.p.name, ref)
		}
	}
	for _, seq := range sortedKeys(v.w.ledger.bySeq) {
		ref := v.w.ledger.bySeq[seq].ref
		if _, ok := v.p.machine.Holds(ref); ok {
			v.w.violate("I-12", "%s still holds %s at the end", v.p.name, ref.MessageID)
		}
	}
}
