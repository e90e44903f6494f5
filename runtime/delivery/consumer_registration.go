package delivery

import (
	"fmt"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// registration is the Consumer's side of its binding.
type registration struct {
	nonce string // of the latest attempt; "" when none is open
	timer *timer
	pause time.Duration

	ref       protocol.BindingRef // empty while unbound
	session   string
	window    int
	heartbeat time.Duration
	deadline  time.Duration

	lineage    lineage
	unanswered bool // the word about the binding on this stream is not in yet
	unclaimed  bool // a job was finished outside of the binding since the latest registration
	untold     bool // finished jobs are remembered that no controller has been told of
	ever       bool
	refusal    string
	notBefore  Now // a refusal asked to wait until then
}

// patientDeadline is the silence after which an unregistered worker dials again.
const patientDeadline = 30 * time.Second

// olderEpochPause is how long a worker waits before it registers again after it met a controller that was replaced.
const olderEpochPause = 500 * time.Millisecond

// maxRefusalWait bounds what a refusal can make a worker wait.
const maxRefusalWait = 5 * time.Minute

func (r *registration) init(c *Consumer) {
	r.timer = newTimer(c.register)
	r.pause = c.cfg.ResendInterval
	r.deadline = patientDeadline
}

// register asks for a binding, or for a fresh word about the one it has, and asks again until an answer comes (G-060).
func (c *Consumer) register(now Now) {
	if !c.connected {
		return
	}
	r := &c.registration
	if now < r.notBefore {
		c.timers.set(r.timer, r.notBefore)
		return
	}
	r.nonce, r.unclaimed, c.lastWords = c.random.ID(), false, nil
	epoch, queue := r.lineage.latest()
	c.send(protocol.RegisterConsumer{
		Version: protocol.Version, Nonce: r.nonce, Incarnation: c.inc, Window: c.cfg.Window, Claims: c.claims(), Epoch: epoch, Queue: queue,
	})
	c.timers.set(r.timer, now+c.jitter(r.pause))
	r.pause = slower(r.pause)
}

// jitter spreads workers that were disturbed at the same time.
func (c *Consumer) jitter(d time.Duration) time.Duration {
	return d + time.Duration(c.random.Float64()*float64(d/4))
}

// registered takes an acknowledgement in, if it echoes the latest nonce. A binding that this worker does not hold yet begins
// at NextSeq with nothing buffered; running handlers go on (G-061, G-X01). One that it holds is reasserted (G-062).
func (c *Consumer) registered(now Now, m protocol.RegistrationAck) {
	r := &c.registration
	if r.nonce == "" || m.Nonce != r.nonce {
		c.drop("stale-nonce")
		return
	}
	if err := m.Validate(); err != nil {
		c.drop("malformed")
		return
	}
	if !r.lineage.accept(m) {
		c.turnAway(now, m)
		return
	}
	r.nonce, r.notBefore, r.unanswered = "", 0, false
	c.timers.stop(r.timer)
	if m.BindingID != r.ref.BindingID {
		c.loseBinding()
		c.sub.reset(m.NextSeq)
		c.startedTold = 0
	}
	c.producer = c.group.enter(now, c, m.Queue)
	r.ref = protocol.BindingRef{BindingID: m.BindingID, Secret: m.Secret}
	r.session, r.window, r.heartbeat, r.deadline = m.Session, m.Window, m.Heartbeat, m.Deadline
	r.refusal, r.pause = "", c.cfg.ResendInterval
	c.adopt(now, m.Adopted)
	r.untold, c.lastWords = r.unclaimed, nil
	if !r.ever {
		c.group.firstRegistration(now)
		r.ever = true
	}
	c.heard = now
	c.armSilence(now)
	c.active(now)
	if c.group.cordoned {
		c.send(protocol.Drain{BindingRef: r.ref})
	}
	c.repeatSettlements(now, 0)
	c.ask(now, true)
	c.group.evict(now)
	c.claimSoon(now)
}

// turnAway leaves a controller that was replaced and does not know it, and dials again a little later.
func (c *Consumer) turnAway(now Now, m protocol.RegistrationAck) {
	r := &c.registration
	c.drop("older-epoch")
	r.refusal = fmt.Sprintf("the producer holds epoch %d of its queue, which is not the newest", m.Epoch)
	r.notBefore = now + c.jitter(olderEpochPause)
	c.emit(Reconnect{c.conn})
	c.hangUp()
}

func (c *Consumer) refused(now Now, m protocol.RegistrationRefused) {
	r := &c.registration
	if r.nonce == "" || m.Nonce != r.nonce {
		c.drop("stale-nonce")
		return
	}
	if m.Code != protocol.RefusedUnavailable {
		r.nonce = "" // an unavailable controller may still answer it
	}
	r.refusal = string(m.Code) + ": " + protocol.ClipReason(m.Reason)
	c.heard = now
	wait := max(c.jitter(r.pause), min(m.RetryAfter, maxRefusalWait))
	r.notBefore = now + min(m.RetryAfter, maxRefusalWait)
	c.timers.set(r.timer, now+wait)
	c.armSilence(now)
}

func (c *Consumer) bindingEnded(now Now, m protocol.BindingEnded) {
	r := &c.registration
	r.refusal = string(m.Code) + ": " + protocol.ClipReason(m.Reason)
	c.loseBinding()
	c.sub.reset(1)
	if m.RetryAfter <= 0 {
		c.register(now)
		return
	}
	r.nonce = ""
	wait := c.jitter(min(m.RetryAfter, maxRefusalWait))
	r.notBefore = now + wait
	c.timers.set(r.timer, r.notBefore)
	c.armSilence(now)
}

// loseBinding forgets the sub-flow. Handlers go on, and what was confirmed and not taken over is remembered (B-238).
func (c *Consumer) loseBinding() {
	for n := c.sub.entries.first; n < c.sub.entries.end(); n++ {
		e := c.sub.entries.at(n)
		switch {
		case e == nil:
		case e.run != nil:
			e.run.entry = nil
			c.detached++
		case e.state == settledEntry && e.settlement.Outcome == protocol.Confirmed:
			c.remember(c.producer, e.settlement.MessageID, rememberedJob{identity: e.identity, held: e.held, reason: e.settlement.Reason})
		case e.state == settledEntry:
			said := e.settlement
			c.keepWord(said.MessageID, lastWord{e.held.storeSeq, said.Outcome, said.Reason, said.RetryAfter})
		}
	}
	c.outbox.forget(c)
	c.registration.ref = protocol.BindingRef{}
	c.timers.stop(c.beatTimer)
	c.timers.stop(c.startedTimer)
	c.timers.stop(c.resendTimer)
}

func protocolHeartbeat(c *Consumer) protocol.Heartbeat {
	return protocol.Heartbeat{BindingRef: c.registration.ref, StartedSeq: c.sub.started}
}
