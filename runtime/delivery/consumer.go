package delivery

import (
	"maps"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// Consumer is the machine in the worker sidecar: it asks for jobs as the window allows, starts handlers in order and settles
// what they said. It is not safe for concurrent use.
type Consumer struct {
	cfg    ConsumerConfig
	inc    protocol.Incarnation
	random Random

	conn      ConnID
	connected bool
	heard     Now // the last word of the controller, or the opening of the stream
	sent      Now // our last word that speaks for the binding

	registration registration
	sub          subflow
	running      running
	outbox       outbox

	appReady bool
	cordoned bool
	draining bool
	drained  bool

	resendTimer  *timer
	resendPause  time.Duration
	progress     bool // since the last resend tick
	gapAskedAt   Now
	gapAsked     bool
	beatTimer    *timer
	silenceTimer *timer
	startedTimer *timer
	startedTold  int64

	timers timers
	out    []ConsumerAction
	counts struct{ started, confirmed, nacked, handedBack, abandoned, duplicates uint64 }
	drops  map[string]uint64
}

// NewConsumer returns a Consumer that waits for Connected and AppReady. Numbers of cfg that make no sense take their default.
func NewConsumer(cfg ConsumerConfig, inc protocol.Incarnation, rnd Random) *Consumer {
	c := &Consumer{cfg: cfg.sane(), inc: inc, random: rnd, timers: newTimers(), drops: map[string]uint64{}}
	c.registration.init(c)
	c.sub.reset(1)
	c.running.init()
	c.outbox.init(c)
	c.resendPause = c.cfg.ResendInterval
	c.resendTimer = newTimer(c.resendTick)
	c.beatTimer = newTimer(c.beat)
	c.silenceTimer = newTimer(c.checkSilence)
	c.startedTimer = newTimer(c.tellStarted)
	return c
}

// Step applies one event and returns what the host must do, in order. The slice is valid until the next Step; the messages
// in it for good.
func (c *Consumer) Step(now Now, ev ConsumerEvent) []ConsumerAction {
	clear(c.out)
	c.out = c.out[:0]
	c.handle(now, ev)
	c.timers.run(now)
	c.startNext(now)
	c.flushSoon(now)
	c.topUp(now)
	c.checkDrained()
	return c.out
}

func (c *Consumer) handle(now Now, ev ConsumerEvent) {
	switch ev := ev.(type) {
	case ConsumerTick:
	case FromController:
		c.fromController(now, ev)
	case HandlerDone:
		c.handlerDone(now, ev)
	case Connected:
		c.connect(now, ev.Conn)
	case Disconnected:
		c.disconnect(ev.Conn)
	case AppReady:
		c.setAppReady(now, ev.Ready)
	case AppRestarted:
		c.appRestarted(now)
	case Cordon:
		c.cordon(now, ev.Force)
	case Uncordon:
		c.uncordon(now)
	case ConsumerPaused:
		c.heard = now
		c.armSilence(now)
	case ReconfigureConsumer:
		c.reconfigure(now, ev.Config)
	}
}

// NextDeadline returns when the host must send a ConsumerTick at the latest; false means that only an event can change anything.
func (c *Consumer) NextDeadline() (Now, bool) { return c.timers.next() }

// Status returns a snapshot that shares nothing with the Consumer.
func (c *Consumer) Status(now Now) ConsumerStatus {
	return ConsumerStatus{
		Registered:     c.bound() && c.connected && now-c.heard < c.registration.deadline,
		EverRegistered: c.registration.ever,
		BindingID:      c.registration.ref.BindingID,
		Session:        c.registration.session,
		Running:        c.running.len(),
		Buffered:       c.sub.buffered,
		Unsettled:      c.unsettled(),
		Cordoned:       c.cordoned,
		Draining:       c.draining,
		Drained:        c.drained,
		AppReady:       c.appReady,
		IdleSince:      c.running.idleSince,
		Idle:           c.registration.ever && c.unsettled() == 0,
		LastRefusal:    c.registration.refusal,
		Started:        c.counts.started,
		Confirmed:      c.counts.confirmed,
		Nacked:         c.counts.nacked,
		HandedBack:     c.counts.handedBack,
		Abandoned:      c.counts.abandoned,
		Duplicates:     c.counts.duplicates,
		Dropped:        maps.Clone(c.drops),
	}
}

// unsettled counts what this worker has on its hands: deliveries and settlements of the binding that the controller has not
// taken over, and handlers that belong to none of them.
func (c *Consumer) unsettled() int { return c.sub.held + c.running.detached }

func (c *Consumer) bound() bool { return c.registration.ref.BindingID != "" }

// accepting reports whether deliveries may be started at all.
func (c *Consumer) accepting() bool { return c.appReady && !c.cordoned }

// send speaks to the controller; what is said without a stream is lost.
func (c *Consumer) send(m protocol.FromWorker) {
	if c.connected {
		c.out = append(c.out, ToController{c.conn, m})
	}
}

func (c *Consumer) drop(reason string) { c.drops[reason]++ }

func (c *Consumer) connect(now Now, conn ConnID) {
	c.conn, c.connected, c.heard = conn, true, now
	c.armSilence(now)
	c.registration.pause = c.cfg.ResendInterval
	c.register(now)
}

func (c *Consumer) disconnect(conn ConnID) {
	if c.connected && conn == c.conn {
		c.hangUp()
	}
}

func (c *Consumer) hangUp() {
	c.connected = false
	c.registration.nonce = ""
	for _, t := range []*timer{c.registration.timer, c.resendTimer, c.beatTimer, c.startedTimer, c.silenceTimer} {
		c.timers.stop(t)
	}
}

func (c *Consumer) fromController(now Now, ev FromController) {
	if !c.connected || ev.Conn != c.conn {
		c.drop("stale-connection")
		return
	}
	switch m := ev.Message.(type) {
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
	return true
}

func (c *Consumer) reconfigure(now Now, cfg ConsumerConfig) {
	before := c.cfg
	c.cfg = cfg.sane()
	c.outbox.limit = max(c.outbox.limit, c.cfg.Window)
	if before.Window != c.cfg.Window && c.connected {
		c.register(now)
	}
}
