package delivery

import (
	"github.com/workpulling/workpulling/runtime/protocol"
)

// target is the demand that the window allows: it counts what is unsettled, so one long job cannot dry it up.
func (c *Consumer) target() int64 {
	s := &c.sub
	if !c.accepting() {
		return s.demand
	}
	span := min(s.above+c.registration.window, protocol.MaxFlowControlWindow)
	return max(s.demand, s.watermark()+min(int64(span), protocol.MaxSequence-s.watermark()))
}

// ask sends demand. resend asks for everything again that was sent and not started.
func (c *Consumer) ask(now Now, resend bool) {
	if !c.bound() || !c.connected {
		return
	}
	s := &c.sub
	s.demand = c.target()
	c.send(protocol.Request{
		BindingRef: c.registration.ref, ConfirmedSeq: s.watermark(), RequestUpTo: s.demand, StartedSeq: s.started, ViaTimeout: resend,
	})
	c.spoke(now)
}

// topUp raises the demand when it is worth a message: a quarter of the window, or little left to do.
func (c *Consumer) topUp(now Now) {
	if !c.bound() || !c.connected || c.inDoubt(now) {
		return
	}
	s := &c.sub
	gain := int(c.target() - s.demand)
	left := int(s.demand-s.expected) + 1 + s.buffered
	if gain > 0 && (4*gain >= c.registration.window || left <= c.registration.window/2) {
		c.ask(now, false)
	}
}

// active notes progress: the resend timer is as quick as configured again.
func (c *Consumer) active(now Now) {
	if !c.connected || !c.bound() {
		return
	}
	if c.resendPause != c.cfg.ResendInterval || !c.resendTimer.armed() {
		c.resendPause = c.cfg.ResendInterval
		c.timers.set(c.resendTimer, now+c.resendPause)
	}
	c.progress = true
}

// resendTick does one thing, the most urgent: ask whether the controller still knows this worker, repeat what it has not taken
// over, or ask for what may have been lost (G-072). It slows down while nothing happens (B-110).
func (c *Consumer) resendTick(now Now) {
	if !c.connected || !c.bound() {
		return
	}
	s := &c.sub
	switch quiet := max(c.cfg.ResendInterval, 2*c.registration.heartbeat); {
	case now-c.heard >= quiet && c.registration.nonce == "":
		c.registration.pause = c.cfg.ResendInterval
		c.register(now)
	case !c.progress && c.resendPause >= maxBackoff && c.accepting() && c.registration.nonce == "":
		// So long a quiet with open demand may be a misunderstanding, such as a Drain that came after the word that lifted it.
		c.registration.pause = c.cfg.ResendInterval
		c.register(now)
	case c.repeatSettlements(now, c.cfg.ResendInterval):
	case s.gap() || s.buffered == 0 && s.expected <= s.demand:
		c.ask(now, true)
	case c.target() > s.demand:
		c.ask(now, false)
	}
	if !c.progress {
		c.resendPause = slower(c.resendPause)
	}
	c.progress = false
	c.timers.set(c.resendTimer, now+c.resendPause)
}
