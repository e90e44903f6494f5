package delivery

import (
	"maps"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// Controller is the machine in the producer sidecar: it takes jobs from endpoints, keeps them in a WorkQueue and gives them
// to workers by their demand. It is not safe for concurrent use.
type Controller struct {
	cfg    ControllerConfig
	random Random

	phase   Phase
	session string
	epoch   queue.Epoch
	cursor  int64
	lastOp  OpID

	intake, dispatching bool // the doors: SetIntake

	// jobs holds every live job by MessageID, but for the packed and the unnamed ones of the backlog; memory counts their payload bytes that
	// are in memory.
	jobs    map[string]*job
	memory  int64
	backlog backlog
	release *timer

	endpoints  map[ConnID]*endpoint
	endpointsL []*endpoint // in the order of attachment
	hungry     deque[*endpoint]
	granted    []*endpoint // to be told at the end of this step
	openGrants int
	idleGrants int // of the open ones, see setIdle
	storing    int // submissions taken and not stored yet
	spare      spareHandshakes

	connections uint64 // streams ever seen
	conns       map[ConnID]*workerConn
	connsL      []*workerConn // in the order of connection
	pods        map[string]*pod
	podsSeen    uint64          // pods ever seen
	quarantine  map[string]*pod // of pods, those that are kept away
	revisions   map[revisionKey]*revision
	unbound     deque[*pod]
	roster      roster
	bindings    uint64 // bindings ever made
	inFlight    int
	framed      []*binding // have deliveries or settlements to be told at the end of this step
	nextRecall  Now

	lane    lane
	load    load
	fetch   fetch
	members members
	gate    gate

	tickets   tickets
	queueName string // names the data without giving their secret away
	told      told
	owed      owed

	timers  timers
	todo    Todo
	took    bool     // an event since the last Act
	acted   bool     // todo is of the last Act
	single  []Action // what Step has returned last
	counts  counters
	dropped map[string]uint64
}

type counters struct {
	accepted, confirmed, deadLettered, redelivered, nacked, handedBack, paused uint64
	adopted, claimed                                                           uint64
	deadLetters                                                                int64
	isolated, settling                                                         int
}

// NewController returns a Controller that waits for Start. Numbers of cfg that make no sense take their default.
func NewController(cfg ControllerConfig, rnd Random) *Controller {
	c := &Controller{
		cfg:         cfg.sane(),
		random:      rnd,
		phase:       PhaseLoading,
		intake:      true,
		dispatching: true,
		jobs:        map[string]*job{},
		backlog:     newBacklog(),
		endpoints:   map[ConnID]*endpoint{},
		conns:       map[ConnID]*workerConn{},
		pods:        map[string]*pod{},
		quarantine:  map[string]*pod{},
		revisions:   map[revisionKey]*revision{},
		roster:      newRoster(),
		timers:      newTimers(),
		dropped:     map[string]uint64{},
	}
	c.roster.setDispatch(c.cfg.Dispatch)
	c.release = newTimer(func(Now) {})
	c.lane.init()
	c.load.init(c)
	c.fetch.init()
	c.members.init()
	c.owed.init(c)
	c.gate.init(c)
	return c
}

// Step applies one event and returns what the host must do, in order: Take and Act in one, with an action for each thing to do. The slice is
// valid until the next Step; the messages in it for good.
func (c *Controller) Step(now Now, ev Event) []Action {
	c.Take(now, ev)
	todo := c.Act(now)
	clear(c.single)
	c.single = todo.appendTo(c.single[:0])
	return c.single
}

// Take applies one event and leaves what it makes possible to Act, which has to follow: once for all events that came together, since what
// they make possible together is fewer messages and larger batches.
func (c *Controller) Take(now Now, ev Event) {
	if c.takes() {
		c.handle(now, ev)
	}
}

// TakeProduced is Take of a ProducerMessage that is a Produced, for a host that has many of them: it needs no memory for the event.
func (c *Controller) TakeProduced(now Now, conn ConnID, m *protocol.Produced, digest queue.Digest) {
	if !c.takes() {
		return
	}
	if e := c.endpoint(conn); e != nil {
		c.produced(now, e, *m, digest)
	}
}

// TakeStoredAck is TakeProduced for a StoredAck.
func (c *Controller) TakeStoredAck(conn ConnID, m *protocol.StoredAck) {
	if !c.takes() {
		return
	}
	if e := c.endpoint(conn); e != nil {
		c.storedAck(e, *m)
	}
}

// takes prepares for an event; false means that this incarnation has ended.
func (c *Controller) takes() bool {
	if c.acted {
		c.todo.reset()
		c.acted = false
	}
	if c.phase == PhaseFailed {
		return false
	}
	c.took = true
	return true
}

// Act returns what the host must do after the events taken. It is valid until the next Take; the messages in it for good.
func (c *Controller) Act(now Now) *Todo {
	if !c.took { // nothing happens after the end
		c.todo.reset()
		return &c.todo
	}
	c.timers.run(now)
	c.pump(now)
	c.took, c.acted = false, true
	return &c.todo
}

// pump does whatever the event made possible. Each part costs nothing when nothing changed.
func (c *Controller) pump(now Now) {
	if c.phase == PhaseRunning {
		c.releaseDelayed(now)
		c.dispatch(now)
		c.recall(now)
		c.prefetch(now)
		c.runLane()
	}
	if c.phase == PhaseRunning {
		c.grant(now)
	}
	c.flush()
}

func (c *Controller) handle(now Now, ev Event) {
	switch ev := ev.(type) {
	case Tick:
	case WorkerMessage:
		c.workerMessage(now, ev)
	case ProducerMessage:
		c.producerMessage(now, ev)
	case Applied:
		c.applied(now, ev)
	case JobsRead:
		c.jobsRead(now, ev)
	case Start:
		c.start()
	case Loaded:
		c.loaded(now, ev)
	case ProducerAttached:
		c.attach(ev)
	case ProducerDetached:
		c.detach(ev.Conn)
	case WorkerConnected:
		c.connect(ev)
	case WorkerDisconnected:
		c.disconnect(now, ev.Conn)
	case WorkerGone:
		c.workerGone(now, ev)
	case Paused:
		c.grantSilence(now)
		c.prolongGate(now)
	case QueueAnswers:
		c.retryNow(now)
	case QueueHasRoom:
		c.lane.full = nil
	case Reconfigure:
		c.reconfigure(now, ev.Config)
	case SetIntake:
		c.intake, c.dispatching = ev.Open, ev.Dispatch
	case ClaimsResolved:
		c.claimsResolved(now, ev)
	case Redriven:
		if ev.Epoch == c.epoch { // else a load has seen it, and maybe what became of the job since
			c.redriven(now, ev.Row)
		}
	case Dropped:
		if ev.Epoch == c.epoch {
			c.counts.deadLetters--
		}
	}
}

// NextDeadline returns when the host must send a Tick at the latest; false means that only an event can change anything.
func (c *Controller) NextDeadline() (Now, bool) {
	if c.phase == PhaseFailed {
		return 0, false
	}
	return c.timers.next()
}

// Holds returns the job that is stored and not durably settled, as far as this Controller knows, under the MessageID of a ref, or under
// its sequence where the id was left to the queue.
func (c *Controller) Holds(ref queue.JobRef) (queue.JobRef, bool) {
	if j, ok := c.jobs[ref.MessageID]; ok {
		return j.ref(), true
	}
	if c.backlog.holds(ref.StoreSeq) {
		return ref, true
	}
	return queue.JobRef{}, false
}

// find returns the live job of a ref, nil if there is none.
func (c *Controller) find(ref queue.JobRef) *job {
	if j := c.jobs[ref.MessageID]; j != nil && j.seq == ref.StoreSeq {
		return j
	}
	if j := c.backlog.unnamed[ref.StoreSeq]; j != nil {
		c.name(j, ref.MessageID)
		return j
	}
	j := c.backlog.peek(ref.StoreSeq)
	if j != nil {
		j.body.MessageID = ref.MessageID
	}
	return j
}

// name takes an unnamed job among those that are known by their id.
func (c *Controller) name(j *job, messageID string) {
	j.body.MessageID = messageID
	delete(c.backlog.unnamed, j.seq)
	c.jobs[messageID] = j
}

// known reports whether a job is live.
func (c *Controller) known(j *job) bool {
	return c.jobs[j.body.MessageID] == j || c.backlog.unnamed[j.seq] == j
}

// withdraw takes a job that find returned out of the backlog.
func (c *Controller) withdraw(j *job) {
	c.backlog.withdraw(j)
	c.jobs[j.body.MessageID] = j // a packed one was not among them
}

// Phase is Stats().Phase, for those who ask often.
func (c *Controller) Phase() Phase { return c.phase }

// Stats returns a snapshot that shares nothing with the Controller.
func (c *Controller) Stats() Stats {
	var s Stats
	c.Snapshot(&s)
	return s
}

// Snapshot is Stats for who looks often: it makes s the snapshot and uses the map and the list of bindings that s has again.
func (c *Controller) Snapshot(s *Stats) {
	dropped := s.Dropped
	if dropped == nil {
		dropped = make(map[string]uint64, len(c.dropped))
	}
	clear(dropped)
	maps.Copy(dropped, c.dropped)
	*s = Stats{
		Phase:                 c.phase,
		Session:               c.session,
		Epoch:                 c.epoch,
		Cursor:                c.cursor,
		BacklogJobs:           c.backlog.jobs,
		BacklogBytes:          c.backlog.bytes,
		DelayedJobs:           c.backlog.delayed.len(),
		InFlight:              c.inFlight,
		DeadLetters:           max(0, c.counts.deadLetters),
		FreeDemand:            c.roster.free,
		OpenGrants:            c.openGrants,
		DirtyConfirms:         c.counts.settling,
		MemoryBytes:           c.memory,
		OldestBacklogStoreSeq: c.backlog.oldest(),
		LoadFailing:           c.load.failing,
		CreditWithheld:        c.lane.withheld,
		QueueError:            c.queueError(),
		QueueFull:             c.lane.full != nil,
		IsolatedConfirms:      c.counts.isolated,
		Accepted:              c.counts.accepted,
		Confirmed:             c.counts.confirmed,
		DeadLettered:          c.counts.deadLettered,
		Redelivered:           c.counts.redelivered,
		Nacked:                c.counts.nacked,
		HandedBack:            c.counts.handedBack,
		Adopted:               c.counts.adopted,
		Claimed:               c.counts.claimed,
		AwaitedWorkers:        len(c.gate.awaited),
		Dropped:               dropped,
		Bindings:              c.roster.stats(s.Bindings[:0]),
		Paused:                c.pausedRevisions(),
		Quarantined:           c.quarantined(),
		Pauses:                c.counts.paused,
		TrackedWorkers:        len(c.pods),
		TrackedStreams:        len(c.conns),
	}
}

func (c *Controller) queueError() string {
	for _, err := range []error{c.load.err, c.lane.handshakeErr, c.lane.full, c.lane.settleErr, c.fetch.err} {
		if err != nil {
			return err.Error()
		}
	}
	return ""
}

func (c *Controller) reconfigure(now Now, cfg ControllerConfig) {
	c.cfg = cfg.sane()
	c.roster.setDispatch(c.cfg.Dispatch)
	for _, b := range c.roster.ring {
		c.refresh(now, b)
		c.armLiveness(now, b)
	}
}

func (c *Controller) emit(a Action)      { c.todo.Actions = append(c.todo.Actions, a) }
func (c *Controller) drop(reason string) { c.dropped[reason]++ }

func (c *Controller) nextOp() OpID {
	c.lastOp++
	return c.lastOp
}

// fail ends this incarnation, once (I-11).
func (c *Controller) fail(stage Stage, cause error) {
	if c.phase == PhaseFailed {
		return
	}
	c.phase = PhaseFailed
	c.emit(Failed{Stage: stage, Cause: cause})
}

func (c *Controller) toWorker(conn ConnID, m protocol.ToWorker)     { c.emit(ToWorker{conn, m}) }
func (c *Controller) toProducer(conn ConnID, m protocol.ToProducer) { c.emit(ToProducer{conn, m}) }

// maxBackoff bounds every wait of the machines that has no bound of its own.
const maxBackoff = 30 * time.Second

// backoff is the nth wait, n from 1: initial, doubled each time up to limit, of which the upper half is jitter.
func backoff(rnd Random, initial, limit time.Duration, n int) time.Duration {
	d := initial
	for ; n > 1 && d < limit; n-- {
		d *= 2
	}
	d = min(d, limit)
	return d/2 + time.Duration(float64(d-d/2)*rnd.Float64())
}
