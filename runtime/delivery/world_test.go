package delivery

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/memory"
)

// world hosts one Controller and any number of Consumers over a memory queue and a perfect, immediate network, whose faults a
// test injects.
type world struct {
	together bool // machines take all that is on its way before they act
	taken    bool
	t        testing.TB
	now      Now
	queue    *memory.Queue
	ctl      *Controller
	rnd      *testRandom

	todo    []func() // events on their way
	conns   map[ConnID]*testWorker
	last    ConnID
	workers []*testWorker
	prods   map[ConnID]*testProducer
	// revisions are the pool revisions of workers, by name.
	revisions map[string]string

	// toWorker and fromWorker drop a message by returning false; applyErr and loadErr fail an operation.
	toWorker   func(w *testWorker, m protocol.ToWorker) bool
	fromWorker func(w *testWorker, m protocol.FromWorker) bool
	applyErr   func(b queue.Batch) error
	loadErr    func() error
	blind      bool // look-ups of claims find out nothing
	resolves   int  // of what no worker claims
	// lostReply makes an applied batch look failed.
	lostReply func(b queue.Batch) error
	holdApply bool
	holdReads bool
	held      []func()
	readErr   func() error

	batches []queue.Batch
	loads   int
	reads   int
	failed  []Failed
	settled []JobSettled
	closed  []CloseWorker
}

type testRandom struct{ n int }

func (r *testRandom) ID() string       { r.n++; return "id-" + strconv.Itoa(r.n) }
func (r *testRandom) Float64() float64 { return 0.5 }

func newWorld(t testing.TB, edit func(*ControllerConfig)) *world {
	t.Helper()
	q, err := memory.New(memory.Options{DeduplicationWindow: time.Hour, Clock: func() time.Time { return time.Unix(0, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, queue: q, rnd: &testRandom{}, conns: map[ConnID]*testWorker{}, prods: map[ConnID]*testProducer{}}
	w.revisions = map[string]string{}
	w.boot(edit)
	return w
}

// boot starts a Controller over the queue, as a producer restart does.
func (w *world) boot(edit func(*ControllerConfig)) {
	cfg := DefaultControllerConfig()
	if edit != nil {
		edit(&cfg)
	}
	w.ctl = NewController(cfg, w.rnd)
	w.todo, w.held = nil, nil
	for conn, tw := range w.conns {
		delete(w.conns, conn)
		tw.conn = 0
		if !tw.dead {
			tw.step(Disconnected{conn})
		}
	}
	clear(w.prods)
	w.step(Start{})
	w.run()
}

func (w *world) step(ev Event) {
	w.ctl.Take(w.now, ev)
	if w.taken = true; !w.together {
		w.act()
	}
}

// act does what the events taken lead to; false if there were none.
func (w *world) act() bool {
	if !w.taken {
		return false
	}
	w.taken = false
	todo := w.ctl.Act(w.now)
	for _, a := range todo.Actions { // hosts look for these in their lists alone
		to, _ := a.(ToProducer)
		_, stored := to.Message.(protocol.Stored)
		if _, settled := a.(JobSettled); stored || settled {
			w.t.Errorf("%T stands among the actions", a)
		}
	}
	for _, a := range todo.appendTo(nil) {
		w.do(a)
	}
	return true
}

// actAll lets every machine act that has taken something.
func (w *world) actAll() bool {
	acted := w.act()
	for _, tw := range w.workers {
		acted = tw.act() || acted
	}
	return acted
}

func (w *world) later(f func()) { w.todo = append(w.todo, f) }

func (w *world) do(a Action) {
	ctx := context.Background()
	switch a := a.(type) {
	case LoadQueue:
		w.loads++
		ev := Loaded{Op: a.Op}
		if w.loadErr != nil {
			ev.Err = w.loadErr()
		}
		if ev.Err == nil {
			ev.State, ev.Epoch, ev.Err = w.queue.Load(ctx, "test", func(r queue.Row) error { ev.Rows = append(ev.Rows, r); return nil })
		}
		w.later(func() { w.step(ev) })
	case ApplyBatch:
		w.batches = append(w.batches, a.Batch)
		apply := func() {
			ev := Applied{Op: a.Op}
			if w.applyErr != nil {
				ev.Err = w.applyErr(a.Batch)
			}
			if ev.Err == nil {
				ev.Result, ev.Err = w.queue.Apply(ctx, a.Epoch, a.Batch)
			}
			if ev.Err == nil && w.lostReply != nil {
				ev.Err = w.lostReply(a.Batch)
			}
			w.step(ev)
		}
		if w.holdApply {
			w.held = append(w.held, apply)
		} else {
			w.later(apply)
		}
	case ReadJobs:
		w.reads++
		read := func() {
			jobs, err := w.queue.ReadJobs(ctx, a.Seqs)
			if w.readErr != nil {
				jobs, err = nil, w.readErr()
			}
			w.step(JobsRead{Op: a.Op, Jobs: jobs, Err: err})
		}
		if w.holdReads {
			w.held = append(w.held, read)
		} else {
			w.later(read)
		}
	case ToWorker:
		tw := w.conns[a.Conn]
		if tw == nil || w.toWorker != nil && !w.toWorker(tw, a.Message) {
			return
		}
		w.later(func() { tw.receive(a.Conn, a.Message) })
	case ToProducer:
		if p := w.prods[a.Conn]; p != nil {
			p.receive(a.Message)
		}
	case CloseWorker:
		w.closed = append(w.closed, a)
		if tw := w.conns[a.Conn]; tw != nil {
			w.later(func() {
				if tw.conn == a.Conn && !tw.dead {
					tw.disconnect()
					tw.connect()
				}
			})
		}
	case JobSettled:
		w.settled = append(w.settled, a)
	case ResolveClaims:
		if a.PodUID == "" {
			w.resolves++
		}
		if w.blind {
			return
		}
		w.later(func() { w.step(w.resolve(a)) })
	case Failed:
		w.failed = append(w.failed, a)
	default:
		w.t.Fatalf("unknown action %T", a)
	}
}

// resolve is what a host does about claims of jobs that the Controller does not hold.
func (w *world) resolve(a ResolveClaims) ClaimsResolved {
	ev := ClaimsResolved{Epoch: a.Epoch, PodUID: a.PodUID, BindingID: a.BindingID}
	for _, ref := range a.Refs {
		state, ok, err := w.queue.Lookup(context.Background(), ref.MessageID)
		switch {
		case err != nil || ok && state.StoreSeq == ref.StoreSeq && state.Status == queue.StatusStored:
			continue
		case ok && state.StoreSeq == ref.StoreSeq && state.Status == queue.StatusDeadLettered:
			if _, err := w.queue.Apply(context.Background(), a.Epoch, queue.Batch{Confirms: []queue.JobRef{ref}}); err != nil {
				continue
			}
			ev.Confirmed = append(ev.Confirmed, ref)
		case ok && state.StoreSeq == ref.StoreSeq && state.Status == queue.StatusDropped:
			ev.Dropped = append(ev.Dropped, ref)
		}
		ev.Ended = append(ev.Ended, ref)
	}
	return ev
}

// run delivers everything that is on its way, without letting time pass.
func (w *world) run() {
	w.t.Helper()
	for n := 0; len(w.todo) > 0 || w.actAll(); n++ {
		if n > 2_000_000 {
			w.t.Fatal("the machines never come to rest")
		}
		if len(w.todo) == 0 {
			continue
		}
		f := w.todo[0]
		w.todo = w.todo[1:]
		f()
	}
	w.check()
}

// release lets held batches through.
func (w *world) release() {
	held := w.held
	w.held, w.holdApply, w.holdReads = nil, false, false
	for _, f := range held {
		w.later(f)
	}
	w.run()
}

// advance lets time pass, stopping at every deadline of every machine.
func (w *world) advance(d time.Duration) {
	w.t.Helper()
	end := w.now + d
	for {
		next := end
		if at, ok := w.ctl.NextDeadline(); ok {
			next = min(next, at)
		}
		for _, tw := range w.workers {
			if at, ok := tw.next(); ok {
				next = min(next, at)
			}
		}
		if next > w.now {
			w.now = next
		}
		w.step(Tick{})
		for _, tw := range w.workers {
			tw.tick()
		}
		w.run()
		if w.now >= end {
			return
		}
	}
}

// check verifies the invariants that can be seen from outside after every round: those of the contract.
func (w *world) check() {
	w.t.Helper()
	c := w.ctl
	st := c.Stats()
	places := map[place]int{}
	for id, j := range c.jobs {
		places[j.place]++
		if j.place == bound && j.binding.find(j.workerSeq) != j {
			w.t.Fatalf("I-2: %s is bound to a binding that does not hold it", id)
		}
		if j.place == 0 {
			w.t.Fatalf("I-1: %s is nowhere", id)
		}
	}
	nameless := w.nameless()
	if got := places[waiting] + places[fetching] + len(nameless); got != st.BacklogJobs {
		w.t.Fatalf("I-1: %d jobs in the backlog, stats say %d", got, st.BacklogJobs)
	}
	if places[bound] != st.InFlight || places[delayed] != st.DelayedJobs || places[settling]+len(w.ctl.load.unseen) != st.DirtyConfirms {
		w.t.Fatalf("I-1: places %v, stats %+v", places, st)
	}
	var memory, bytes int64
	for _, j := range c.jobs {
		if j.loaded() {
			memory += int64(j.size)
		}
		if j.place == waiting || j.place == fetching || j.place == delayed {
			bytes += int64(j.size)
		}
	}
	for _, j := range nameless {
		bytes += int64(j.size)
	}
	if memory != st.MemoryBytes || bytes != st.BacklogBytes {
		w.t.Fatalf("memory %d, stats %d; backlog bytes %d, stats %d", memory, st.MemoryBytes, bytes, st.BacklogBytes)
	}
	free := 0
	for _, b := range c.roster.ring {
		if b.bound+b.settling > max(b.window, c.cfg.MaxWindow, b.adopted) || b.current > b.demand {
			w.t.Fatalf("I-3/I-4: binding %s: bound %d settling %d current %d demand %d", b.id, b.bound, b.settling, b.current, b.demand)
		}
		free += b.free
	}
	if free != st.FreeDemand || free < 0 {
		w.t.Fatalf("free demand %d, stats %d", free, st.FreeDemand)
	}
	if len(w.failed) > 1 {
		w.t.Fatalf("I-11: %d terminal failures", len(w.failed))
	}
}

// nameless are the jobs whose id is left to the queue.
func (w *world) nameless() []*job {
	b := &w.ctl.backlog
	jobs := slices.Collect(maps.Values(b.unnamed))
	for _, all := range []packedJobs{b.held.packed, b.packed} {
		for n := all.runs.first; n < all.runs.end(); n++ {
			for r := all.runs.at(n); r.jobs > 0; {
				jobs = append(jobs, r.pop().job())
			}
		}
	}
	return jobs
}

// job is what the controller knows of a job, nil if nothing.
func (w *world) job(id string) *job {
	if j := w.ctl.jobs[id]; j != nil {
		return j
	}
	state, _, err := w.queue.Lookup(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	if j := w.ctl.backlog.unnamed[state.StoreSeq]; j != nil {
		return j
	}
	return w.ctl.backlog.peek(state.StoreSeq)
}

// holds is how many jobs the controller knows of.
func (w *world) holds() int { return len(w.ctl.jobs) + len(w.nameless()) }

// --- producers ------------------------------------------------------------------------------------------------------

// testProducer submits jobs, repeats what a new session forgot and acknowledges what is stored.
type testProducer struct {
	w       *world
	conn    ConnID
	session string
	upTo    uint64
	used    uint64
	todo    []protocol.Job
	open    map[uint64]protocol.Job

	mute      bool // keeps StoredAck back
	manual    bool // answers nothing by itself
	grants    []protocol.RequestNext
	stored    []protocol.Stored
	refused   []protocol.Refused
	confirmed []protocol.DeliveryConfirmed
}

func (w *world) producer(credits int) *testProducer {
	w.last++
	p := &testProducer{w: w, conn: w.last, open: map[uint64]protocol.Job{}}
	w.prods[p.conn] = p
	w.step(ProducerAttached{Conn: p.conn, MaxCredits: credits, Notify: true})
	w.run()
	return p
}

func newJob(id string) protocol.Job {
	return protocol.Job{MessageID: id, Payload: []byte("payload of " + id)}
}

func digestOf(j protocol.Job) queue.Digest { return sha256.Sum256(j.Payload) }

func (p *testProducer) submit(jobs ...protocol.Job) {
	p.w.t.Helper()
	p.todo = append(p.todo, jobs...)
	p.pump()
	p.w.run()
}

func (w *world) submit(p *testProducer, prefix string, n int) {
	w.t.Helper()
	for i := range n {
		p.todo = append(p.todo, newJob(fmt.Sprintf("%s%d", prefix, i+1)))
	}
	p.pump()
	w.run()
}

func (p *testProducer) pump() {
	for len(p.todo) > 0 && p.used < p.upTo && !p.manual {
		p.used++
		p.produce(p.used, p.todo[0])
		p.todo = p.todo[1:]
	}
}

func (p *testProducer) produce(token uint64, j protocol.Job) {
	p.open[token] = j
	p.send(protocol.Produced{Session: p.session, Token: token, Job: j}, digestOf(j))
}

func (p *testProducer) send(m protocol.FromProducer, d queue.Digest) {
	p.w.later(func() { p.w.step(ProducerMessage{Conn: p.conn, Digest: d, Message: m}) })
}

func (p *testProducer) receive(m protocol.ToProducer) {
	switch m := m.(type) {
	case protocol.RequestNext:
		p.grants = append(p.grants, m)
		if m.Session != p.session {
			p.session, p.upTo, p.used = m.Session, 0, 0
			for _, token := range slices.Sorted(mapsKeys(p.open)) {
				p.todo = append(p.todo, p.open[token])
			}
			clear(p.open)
		}
		p.upTo = max(p.upTo, m.UpTo)
		p.pump()
	case protocol.Stored:
		p.stored = append(p.stored, m)
		if !p.mute {
			delete(p.open, m.Token)
			p.send(protocol.StoredAck{Session: m.Session, Token: m.Token, MessageID: m.MessageID}, queue.Digest{})
		}
	case protocol.Refused:
		p.refused = append(p.refused, m)
	case protocol.DeliveryConfirmed:
		p.confirmed = append(p.confirmed, m)
	}
}

func mapsKeys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// --- workers --------------------------------------------------------------------------------------------------------

// testWorker is a pod with a sidecar. Without auto its handlers wait for finish.
type testWorker struct {
	taken bool
	w     *world
	name  string
	pod   string // the pod's name; name where empty
	inc   protocol.Incarnation
	cons  *Consumer
	conn  ConnID
	dead  bool

	auto         func(d protocol.Delivery) protocol.Outcome
	running      map[string]StartHandler
	order        []string // MessageIDs in the order of their starts
	starts       []protocol.Delivery
	cancels      []RunID
	drained      int
	orphansEnded []string
	received     []protocol.ToWorker
	sent         []protocol.FromWorker
}

func confirmAll(protocol.Delivery) protocol.Outcome { return protocol.Confirmed }

func (w *world) worker(name string, edit func(*ConsumerConfig)) *testWorker {
	return w.incarnation(name, name+"-boot-1", edit)
}

// incarnation starts a sidecar process, which takes events before it connects.
func (w *world) incarnation(uid, boot string, edit func(*ConsumerConfig), before ...ConsumerEvent) *testWorker {
	cfg := DefaultConsumerConfig()
	if edit != nil {
		edit(&cfg)
	}
	tw := &testWorker{w: w, name: uid, inc: protocol.Incarnation{PodUID: uid, BootNonce: boot}, running: map[string]StartHandler{}}
	tw.cons = NewConsumer(cfg, tw.inc, w.rnd)
	w.workers = append(w.workers, tw)
	for _, ev := range before {
		tw.step(ev)
	}
	tw.step(AppReady{true})
	tw.connect()
	return tw
}

// serve answers every delivery by itself from now on, and those that wait already. A zero outcome keeps the handler running.
func (tw *testWorker) serve(answer func(protocol.Delivery) protocol.Outcome) *testWorker {
	tw.auto = answer
	for _, id := range slices.Sorted(mapsKeys(tw.running)) {
		if outcome := answer(tw.running[id].Delivery); outcome != 0 {
			tw.done(id, outcome)
		}
	}
	tw.w.run()
	return tw
}

func (tw *testWorker) connect() {
	w := tw.w
	w.last++
	conn := w.last
	tw.conn = conn
	w.conns[conn] = tw
	w.step(WorkerConnected{Conn: conn, Worker: Worker{PodUID: tw.name, PodName: cmp.Or(tw.pod, tw.name), Pool: "pool", Revision: w.revisions[tw.name]}})
	tw.step(Connected{Conn: conn})
	w.run()
}

func (tw *testWorker) disconnect() {
	if tw.conn == 0 {
		return
	}
	conn := tw.conn
	tw.conn = 0
	delete(tw.w.conns, conn)
	tw.w.step(WorkerDisconnected{conn})
	if !tw.dead {
		tw.step(Disconnected{conn})
	}
}

// die ends the process: the stream breaks, handlers vanish.
func (tw *testWorker) die() {
	tw.dead = true
	clear(tw.running)
	tw.disconnect()
	tw.w.run()
}

// kill is die with positive evidence.
func (tw *testWorker) kill() {
	tw.die()
	tw.w.step(WorkerGone{PodUID: tw.name, Reason: "deleted"})
	tw.w.run()
}

func (tw *testWorker) next() (Now, bool) {
	if tw.dead {
		return 0, false
	}
	return tw.cons.NextDeadline()
}

func (tw *testWorker) tick() {
	if !tw.dead {
		tw.step(ConsumerTick{})
	}
}

func (tw *testWorker) receive(conn ConnID, m protocol.ToWorker) {
	if tw.dead || conn != tw.conn {
		return
	}
	tw.received = append(tw.received, m)
	tw.step(FromController{conn, m})
}

func (tw *testWorker) step(ev ConsumerEvent) {
	tw.cons.group.Take(tw.w.now, ev)
	if tw.taken = true; !tw.w.together {
		tw.act()
	}
}

// act does what the events taken lead to; false if there were none.
func (tw *testWorker) act() bool {
	w := tw.w
	if !tw.taken {
		return false
	}
	tw.taken = false
	for _, a := range tw.cons.group.Act(w.now).appendTo(nil) {
		switch a := a.(type) {
		case ToController:
			tw.sent = append(tw.sent, a.Message)
			if w.fromWorker == nil || w.fromWorker(tw, a.Message) {
				w.later(func() { w.step(WorkerMessage(a)) })
			}
		case Reconnect:
			w.later(func() {
				tw.disconnect()
				tw.connect()
			})
		case StartHandler:
			tw.start(a)
		case CancelHandler:
			tw.cancels = append(tw.cancels, a.Run)
		case OrphanEnded:
			tw.orphansEnded = append(tw.orphansEnded, a.MessageID)
		case Drained:
			tw.drained++
		}
	}
	st := tw.cons.Status(w.now)
	if st.Buffered+st.Running > st.Unsettled || st.Unsettled < 0 {
		w.t.Fatalf("worker %s: status %+v", tw.name, st)
	}
	return true
}

func (tw *testWorker) start(a StartHandler) {
	id := a.Delivery.Job.MessageID
	if _, ok := tw.running[id]; ok {
		tw.w.t.Fatalf("I-9: %s runs twice on %s", id, tw.name)
	}
	if string(a.Delivery.Job.Payload) != "payload of "+id {
		tw.w.t.Fatalf("I-7: %s got payload %q", id, a.Delivery.Job.Payload)
	}
	tw.running[id] = a
	tw.order = append(tw.order, id)
	tw.starts = append(tw.starts, a.Delivery)
	if tw.auto != nil {
		outcome := tw.auto(a.Delivery)
		if outcome != 0 {
			tw.w.later(func() { tw.done(id, outcome) })
		}
	}
}

func (tw *testWorker) done(id string, outcome protocol.Outcome) {
	a, ok := tw.running[id]
	if !ok || tw.dead {
		return
	}
	delete(tw.running, id)
	tw.step(HandlerDone{Run: a.Run, Outcome: outcome, Reason: outcome.String()})
}

func (tw *testWorker) finish(id string, outcome protocol.Outcome) {
	tw.w.t.Helper()
	if _, ok := tw.running[id]; !ok {
		tw.w.t.Fatalf("%s does not run on %s", id, tw.name)
	}
	tw.done(id, outcome)
	tw.w.run()
}

var errFlaky = errors.New("flaky")

// injected hands the Controller a message of a worker as if it had come over its stream.
func (tw *testWorker) inject(m protocol.FromWorker) {
	tw.w.step(WorkerMessage{tw.conn, m})
	tw.w.run()
}

func (tw *testWorker) ref() protocol.BindingRef { return tw.cons.registration.ref }

func (w *world) equal(what string, got, want any) {
	w.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}
