package endpoint

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/transport"
)

// ProducerOptions configure a Producer. Config, Queue and Owner are required; the other zero values mean the defaults stated.
type ProducerOptions struct {
	Config delivery.ControllerConfig
	Queue  queue.WorkQueue
	// Owner is recorded with the epoch, for people and forwarding.
	Owner string
	Log   logr.Logger
	// OperationTimeout bounds each operation of the durable lane (10 s); a load may take ten times that for each
	// thousand of its rows.
	OperationTimeout time.Duration
	// Intake is what the flow does at first; the zero value neither accepts nor dispatches.
	Intake delivery.SetIntake
	// Credits is the most unanswered submissions of this process (4,096), StreamCredits that of one gRPC producer stream (64).
	Credits, StreamCredits int
	// CreditWait is how long a submission waits for credit before it is refused (250 ms).
	CreditWait time.Duration
	// CompactEvery is how often tombstones are looked after (5 s).
	CompactEvery time.Duration
	// StopGrace is how long Run goes on after its context ended, at most, to let short jobs in flight finish and to make
	// settlements durable (5 s). What is not settled by then runs again.
	StopGrace time.Duration
	// OrphanAge is how old a stored, never accepted job is when it counts as an orphan (1 h).
	OrphanAge time.Duration
	// OrphansEvery is how often orphans are counted (5 min).
	OrphansEvery time.Duration
	// Halted is a terminal failure of an earlier process that nobody has recovered from: nothing is loaded before Recover.
	Halted *delivery.Failed
	// HandOver: another process takes the jobs in flight over, so that Run does not wait for them when its context ends, only for
	// what is being written.
	HandOver bool
	// OnFailed is called once for each terminal failure, on a goroutine of its own.
	OnFailed func(delivery.Failed)
	// Authenticator decides about the peers of Register'ed services.
	Authenticator transport.Authenticator
	Random        delivery.Random
	Clock         clock.Clock
}

// DefaultCredits is the default of ProducerOptions.Credits.
const DefaultCredits = 4096

const defaultOperationTimeout = 10 * time.Second

func (o *ProducerOptions) setDefaults() {
	setDefault(&o.Credits, DefaultCredits)
	setDefault(&o.StreamCredits, 64)
	setDefault(&o.CreditWait, 250*time.Millisecond)
	setDefault(&o.CompactEvery, 5*time.Second)
	setDefault(&o.StopGrace, 5*time.Second)
	setDefault(&o.OrphanAge, time.Hour)
	setDefault(&o.OrphansEvery, 5*time.Minute)
	if o.Random == nil {
		o.Random = CryptoRandom{}
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
}

func setDefault[T int | time.Duration](value *T, otherwise T) {
	if *value <= 0 {
		*value = otherwise
	}
}

// Producer hosts one Controller, its queue, the submissions of this process and the streams of its peers.
type Producer struct {
	options   ProducerOptions
	log       logr.Logger
	loop      *loop
	lane      *lane
	penalties *transport.Penalties
	refused   transport.Refusals
	lastConn  atomic.Uint64
	epoch     atomic.Uint64 // of the newest load, for maintenance
	orphans   atomic.Int64  // as last counted
	silence   atomic.Int64  // time.Duration, see SetStreamTimeout
	timeout   atomic.Int64  // time.Duration, see SetOperationTimeout
	letters   letters

	// Owned by the loop.
	controller *delivery.Controller
	config     delivery.ControllerConfig
	intake     delivery.SetIntake
	events     []delivery.Event // raised by the actions of a step, for after it
	stepping   bool
	said       said
	stopping   bool
	stopBy     time.Time
	failure    *delivery.Failed
	failures   stageCounter
	// incarnation counts Controllers: a result for an earlier one is of no use.
	incarnation uint64
	began       time.Time
	lost        int64 // jobs that a volatile queue forgot at earlier restarts
	format      uint64
	desk        *desk
	workers     map[delivery.ConnID]*transport.Outbox[protocol.ToWorker]
	podStreams  podStreams
	inbox       mailbox[*submission] // not of the loop alone
	take        func()               // takeSubmissions
	producers   map[delivery.ConnID]*transport.Outbox[protocol.ToProducer]
	waiters     waiters
	ages        ages
	deskConn    delivery.ConnID
	unwritten   *delivery.ApplyBatch  // to be applied at the next rest
	deciding    map[queue.JobRef]bool // dead letters that a decision is being written about
}

// NewProducer returns a producer that does nothing until Run.
func NewProducer(options ProducerOptions) *Producer {
	options.setDefaults()
	p := &Producer{
		options:    options,
		log:        options.Log,
		loop:       newLoop(options.Clock),
		lane:       newLane(),
		penalties:  transport.NewPenalties(options.Clock.Now),
		config:     options.Config,
		intake:     options.Intake,
		workers:    map[delivery.ConnID]*transport.Outbox[protocol.ToWorker]{},
		podStreams: podStreams{},
		producers:  map[delivery.ConnID]*transport.Outbox[protocol.ToProducer]{},
		waiters:    waiters{},
		failures:   stageCounter{},
		deciding:   map[queue.JobRef]bool{},
		letters:    letters{tried: map[triedLetter]bool{}},
	}
	p.desk, p.take = newDesk(deskOf{p}), p.takeSubmissions
	p.SetOperationTimeout(options.OperationTimeout)
	return p
}

// Run loads the queue and works until ctx ends. Then it takes and dispatches nothing more, gives jobs in flight and their
// settlements StopGrace, ends the streams and returns nil. It does not close the queue.
func (p *Producer) Run(ctx context.Context) error {
	defer p.lane.end()
	maintenance, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer stop()
	background.Go(func() { p.compact(maintenance) })
	background.Go(func() { p.watchOrphans(maintenance) })
	background.Go(func() { p.watchRoom(maintenance) })
	p.loop.post(p.begin)
	p.loop.run(ctx, p, p.stopped)
	p.end()
	return nil
}

// stopped decides whether the loop may end after its context did.
func (p *Producer) stopped() bool {
	now := p.options.Clock.Now()
	if !p.stopping {
		p.stopping = true
		p.stopBy = now.Add(p.options.StopGrace)
		p.desk.refuseWaiting(ErrUnavailable)
		p.step(delivery.SetIntake{}) // what is not dispatched any more cannot run twice
	}
	if p.controller == nil || p.failure != nil || !now.Before(p.stopBy) {
		return true
	}
	stats := p.controller.Stats()
	return p.lane.idle() && (stats.InFlight == 0 || p.options.HandOver) && stats.DirtyConfirms == 0 && p.desk.quiet()
}

func (p *Producer) end() {
	for _, out := range p.workers {
		out.Close()
	}
	for _, out := range p.producers {
		out.Close()
	}
	refuse(p.inbox.close(), ErrUnavailable)
	p.desk.refuseAll(ErrUnavailable)
	p.waiters.refuseAll(ErrUnavailable)
}

// Reconfigure replaces the tunables without dropping bindings (B-264).
func (p *Producer) Reconfigure(config delivery.ControllerConfig) {
	p.loop.post(func() {
		p.config = config
		p.step(delivery.Reconfigure{Config: config})
	})
}

// SetIntake opens or closes the door for new jobs, and the dispatch of stored ones.
func (p *Producer) SetIntake(intake delivery.SetIntake) {
	p.loop.post(func() {
		p.intake = intake
		p.step(intake)
		if !intake.Open {
			p.desk.refuseWaiting(ErrSuspended)
		}
	})
}

// SetOperationTimeout changes ProducerOptions.OperationTimeout for the operations that begin from now on; 0 means the default.
func (p *Producer) SetOperationTimeout(d time.Duration) {
	setDefault(&d, defaultOperationTimeout)
	p.timeout.Store(int64(d))
}

func (p *Producer) operationTimeout() time.Duration { return time.Duration(p.timeout.Load()) }

// SetStreamTimeout ends producer streams that are silent for longer, and with them the credit they hold; 0, the default, never.
// It counts from the next message of each stream on.
func (p *Producer) SetStreamTimeout(d time.Duration) { p.silence.Store(int64(d)) }

// WorkerGone reports positive evidence that a pod is over, such as the deletion of its object.
func (p *Producer) WorkerGone(podUID, reason string) {
	p.loop.post(func() { p.step(delivery.WorkerGone{PodUID: podUID, Reason: reason}) })
}

// IncarnationOver reports positive evidence that one process of a pod is over, such as another one that holds its Lease.
func (p *Producer) IncarnationOver(podUID, bootNonce, reason string) {
	p.loop.post(func() { p.step(delivery.WorkerGone{PodUID: podUID, BootNonce: bootNonce, Reason: reason}) })
}

// QueueAnswers reports that the queue answers again after an outage, so that what waits to be tried again is tried now.
func (p *Producer) QueueAnswers() {
	p.loop.post(func() { p.step(delivery.QueueAnswers{}) })
}

func (p *Producer) heartbeat() time.Duration { return max(p.config.Heartbeat, time.Millisecond) }

func (p *Producer) deadline() (delivery.Now, bool) {
	if p.controller == nil || p.failure != nil {
		return p.desk.impatient()
	}
	at, ok := p.controller.NextDeadline()
	if impatient, waits := p.desk.impatient(); waits && (!ok || impatient < at) {
		return impatient, true
	}
	return at, ok
}

func (p *Producer) tick() {
	p.desk.expire()
	p.step(delivery.Tick{})
}

// rest does what is better done once for many events: what the desk has said is one step, and what the last steps have to write one batch,
// where that takes no time.
func (p *Producer) rest() {
	for p.unwritten != nil || !p.said.empty() {
		if !p.said.empty() {
			p.hearDesk()
		}
		if p.unwritten != nil {
			p.applyNow()
		}
	}
}

func (p *Producer) paused(gap time.Duration) {
	p.log.Info("this process was paused", "seconds", gap.Seconds())
	p.step(delivery.Paused{For: gap})
}

// step feeds one event, and the events that its own actions lead to, in order.
func (p *Producer) step(event delivery.Event) {
	if p.controller == nil {
		return
	}
	if p.stepping {
		p.events = append(p.events, event)
		return
	}
	p.controller.Take(p.loop.last, event)
	p.act()
}

// stepTogether is step for the messages of a frame.
func (p *Producer) stepTogether(events []delivery.ProducerMessage) {
	if p.controller == nil {
		return
	}
	for _, event := range events {
		p.controller.Take(p.loop.last, event)
	}
	p.act()
}

// act does what the events taken lead to.
func (p *Producer) act() {
	if p.controller == nil {
		return
	}
	p.stepping = true
	for done := 0; ; done++ { // the actions append to the events
		p.executeAll(p.controller.Act(p.loop.last))
		if done == len(p.events) {
			break
		}
		p.controller.Take(p.loop.last, p.events[done])
	}
	clear(p.events)
	p.events = p.events[:0]
	p.stepping = false
}

func (p *Producer) executeAll(todo *delivery.Todo) {
	stored, settled := todo.Stored, todo.Settled
	for _, action := range todo.Actions {
		switch action.(type) {
		case delivery.TellStored:
			p.tellStored(&stored[0])
			stored = stored[1:]
		case delivery.TellSettled:
			p.waiters.settle(settled[0])
			settled = settled[1:]
		default:
			p.execute(action)
		}
	}
}

func (p *Producer) tellStored(to *delivery.StoredTo) {
	if to.Conn == p.deskConn {
		p.desk.told(&to.Stored)
	} else if out, ok := p.producers[to.Conn]; ok {
		out.Offer(to.Stored)
	}
}

func (p *Producer) execute(action delivery.Action) {
	switch a := action.(type) {
	case delivery.LoadQueue:
		p.load(a)
	case delivery.ApplyBatch:
		p.apply(a)
	case delivery.ReadJobs:
		p.read(a)
	case delivery.ToWorker:
		if out, ok := p.workers[a.Conn]; ok {
			out.Offer(a.Message)
		}
	case delivery.CloseWorker:
		if out, ok := p.workers[a.Conn]; ok {
			out.Close()
			delete(p.workers, a.Conn)
		}
	case delivery.ToProducer:
		if a.Conn == p.deskConn {
			p.desk.receive(a.Message)
		} else if out, ok := p.producers[a.Conn]; ok {
			out.Offer(a.Message)
		}
	case delivery.ResolveClaims:
		p.resolve(a)
	case delivery.Failed:
		p.failed(a)
	}
}

func (p *Producer) nextConn() delivery.ConnID { return delivery.ConnID(p.lastConn.Add(1)) }
