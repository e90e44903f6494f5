package delivery

import (
	"maps"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// Consumer is the part of a worker's machine that pulls from one flow: it asks for jobs as the window allows, starts handlers in
// order and settles what they said. It shares its group with the Consumers of the worker's other flows. It is not safe for
// concurrent use.
type Consumer struct {
	group  *ConsumerGroup
	flow   string
	cfg    *ConsumerConfig
	inc    protocol.Incarnation
	random Random

	conn      ConnID
	connected bool
	heard     Now // the last word of the controller, or the opening of the stream
	sent      Now // our last word that speaks for the binding

	registration registration
	sub          subflow
	running      *running // the group's
	runs         int      // of them, those of this flow
	detached     int      // of those, the ones that no delivery of the binding waits for
	outbox       outbox
	producer     *producer           // that the worker talks to, or talked to last
	memoryLimit  int                 // how many finished jobs of a producer are remembered, by the largest window that was ever configured
	lost         []protocol.Claim    // of an earlier process of this pod
	lastWords    map[string]lastWord // by MessageID

	resendTimer  *timer
	resendPause  time.Duration
	progress     bool // since the last resend tick
	gapAskedAt   Now
	gapAsked     bool
	beatTimer    *timer
	silenceTimer *timer
	startedTimer *timer
	startedTold  int64

	timers *timers // the group's
	counts struct{ started, confirmed, nacked, handedBack, abandoned, duplicates uint64 }
	drops  map[string]uint64
}

// NewConsumer returns the Consumer of a group of its own, for a worker that pulls from one flow without a name. It waits for
// Connected and AppReady. Numbers of cfg that make no sense take their default.
func NewConsumer(cfg ConsumerConfig, inc protocol.Incarnation, rnd Random) *Consumer {
	return NewConsumerGroup(cfg, inc, rnd, "").flows[0]
}

func newConsumer(g *ConsumerGroup, flow string, inc protocol.Incarnation, rnd Random) *Consumer {
	c := &Consumer{
		group: g, flow: flow, cfg: &g.cfg, inc: inc, random: rnd, running: &g.running, timers: &g.timers, drops: map[string]uint64{},
	}
	c.registration.init(c)
	c.sub.reset(1)
	c.outbox.init(c)
	c.producer, c.memoryLimit = &producer{consumer: c}, memoryOf(c.cfg)
	c.resendPause = c.cfg.ResendInterval
	c.resendTimer = newTimer(c.resendTick)
	c.beatTimer = newTimer(c.beat)
	c.silenceTimer = newTimer(c.checkSilence)
	c.startedTimer = newTimer(c.tellStarted)
	return c
}

// Step is ConsumerGroup.Step of a group of one.
func (c *Consumer) Step(now Now, ev ConsumerEvent) []ConsumerAction { return c.group.Step(now, ev) }

// NextDeadline is ConsumerGroup.NextDeadline of a group of one.
func (c *Consumer) NextDeadline() (Now, bool) { return c.group.NextDeadline() }

// Status is ConsumerGroup.Status of a group of one.
func (c *Consumer) Status(now Now) ConsumerStatus { return c.group.Status(now) }

// status is this flow's share of the worker's.
func (c *Consumer) status(now Now) ConsumerStatus {
	return ConsumerStatus{
		Flow:           c.flow,
		Registered:     c.inTouch(now),
		EverRegistered: c.registration.ever,
		BindingID:      c.registration.ref.BindingID,
		Session:        c.registration.session,
		Running:        c.runs,
		Buffered:       c.sub.buffered,
		Unsettled:      c.unsettled(),
		LastRefusal:    c.registration.refusal,
		Started:        c.counts.started,
		Confirmed:      c.counts.confirmed,
		Nacked:         c.counts.nacked,
		HandedBack:     c.counts.handedBack,
		Abandoned:      c.counts.abandoned,
		Duplicates:     c.counts.duplicates,
		OlderEpochs:    c.registration.lineage.older,
		Rivals:         c.registration.lineage.rivals,
		Dropped:        maps.Clone(c.drops),
	}
}

// unsettled counts what this worker has on its hands of the flow: deliveries and settlements of the binding that the controller
// has not taken over, handlers that belong to none of them, and jobs that finished after their binding until a controller was told.
func (c *Consumer) unsettled() int {
	untold := 0
	if c.registration.untold {
		untold = len(c.producer.confirmed.jobs)
	}
	return c.sub.held + c.detached + untold
}

// inTouch reports whether there is a binding and its controller speaks.
func (c *Consumer) inTouch(now Now) bool {
	return c.bound() && c.connected && !c.registration.unanswered && now-c.heard < c.registration.deadline
}

func (c *Consumer) bound() bool { return c.registration.ref.BindingID != "" }

// accepting reports whether deliveries may be started at all.
func (c *Consumer) accepting() bool { return c.group.accepting() }

// send speaks to the controller; what is said without a stream is lost.
func (c *Consumer) send(m protocol.FromWorker) {
	if c.connected {
		c.emit(ToController{c.conn, m})
	}
}

func (c *Consumer) emit(a ConsumerAction) { c.group.todo.emit(a) }

func (c *Consumer) drop(reason string) { c.drops[reason]++ }

func (c *Consumer) connect(now Now, conn ConnID) {
	c.conn, c.connected, c.heard = conn, true, now
	c.armSilence(now)
	c.registration.pause, c.registration.unanswered = c.cfg.ResendInterval, true
	c.register(now)
}

func (c *Consumer) hangUp() {
	c.connected = false
	c.registration.nonce = ""
	for _, t := range []*timer{c.registration.timer, c.resendTimer, c.beatTimer, c.startedTimer, c.silenceTimer} {
		c.timers.stop(t)
	}
}

func (c *Consumer) fromController(now Now, message protocol.ToWorker) {
	switch m := message.(type) {
	case protocol.RegistrationAck:
		c.registered(now, m)
	case protocol.RegistrationRefused:
		c.refused(now, m)
	case protocol.SequencedMessage:
		if c.ours(now, m.BindingID) {
			c.deliver(now, m)
		}
	case protocol.SettledAck:
		if c.ours(now, m.BindingID) {
			c.takenOver(now, m)
		}
	case protocol.ClaimsEnded:
		if c.ours(now, m.BindingID) {
			c.claimsEnded(m)
		}
	case protocol.HandBack:
		if c.ours(now, m.BindingID) {
			c.handBackNewest(now, m.Count)
		}
	case protocol.Heartbeat:
		c.ours(now, m.BindingID)
	case protocol.BindingEnded:
		if c.ours(now, m.BindingID) {
			c.bindingEnded(now, m)
		}
	default:
		c.drop("unknown-message")
	}
}

// ours reports whether a message speaks of the binding that this worker holds; then the controller lives.
func (c *Consumer) ours(now Now, bindingID string) bool {
	if !c.bound() || bindingID != c.registration.ref.BindingID {
		c.drop("unknown-binding")
		return false
	}
	c.heard = now
	c.group.dedup.touch(now, c.producer)
	return true
}
