package delivery

import (
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// doubtOf is the silence after which a worker gets nothing new, and starts nothing itself.
func doubtOf(deadline time.Duration) time.Duration { return deadline / 10 * 7 }

// hear notes that the worker of a binding lives. Its timer is not moved: it looks at the clock when it fires.
func (c *Controller) hear(now Now, b *binding) {
	doubted := now-b.heard >= doubtOf(b.deadline)
	b.heard = now
	if doubted {
		c.refresh(now, b)
	}
}

func (c *Controller) armLiveness(now Now, b *binding) {
	at := b.heard + doubtOf(b.deadline)
	if at <= now {
		at = b.heard + b.deadline
	}
	c.timers.set(b.liveness, max(at, now+1))
}

func (c *Controller) checkLiveness(now Now, b *binding) {
	silent := now - b.heard
	if silent >= b.deadline {
		c.drop(string(protocol.RefusedDeadlineExpired))
		c.endBinding(now, b, protocol.RefusedDeadlineExpired, "the worker was silent for "+silent.String(), 0, true)
		return
	}
	c.refresh(now, b)
	c.armLiveness(now, b)
}

// grantSilence begins every silence anew: this process was paused and heard nobody, however loud they were.
func (c *Controller) grantSilence(now Now) {
	for _, b := range c.roster.ring {
		c.hear(now, b)
		c.armLiveness(now, b)
	}
}

func (c *Controller) sendHeartbeat(now Now, b *binding) {
	c.timers.set(b.beat, now+b.heartbeat)
	if b.conn != nil {
		c.toWorker(b.conn.conn, protocol.Heartbeat{BindingRef: protocol.BindingRef{BindingID: b.id}})
	}
}
