package delivery

import "github.com/workpulling/workpulling/runtime/protocol"

// cordon stops demand. Without force it does so only if nothing is in flight, in one step, so that no job can start in between.
func (c *Consumer) cordon(now Now, force bool) {
	if !force && c.unsettled() > 0 {
		return
	}
	if force && !c.draining {
		c.draining, c.drained = true, false
	}
	if c.cordoned {
		return
	}
	c.cordoned = true
	if c.bound() {
		c.send(protocol.Drain{BindingRef: c.registration.ref})
	}
	c.handBackNewest(now, c.sub.buffered)
}

// uncordon takes demand up again. A fresh registration is what lifts the drain at the controller.
func (c *Consumer) uncordon(now Now) {
	if !c.cordoned {
		return
	}
	c.cordoned, c.draining, c.drained = false, false, false
	c.registration.pause = c.cfg.ResendInterval
	c.register(now)
}

// checkDrained reports the end of a drain, once.
func (c *Consumer) checkDrained() {
	if c.draining && !c.drained && c.running.len() == 0 && c.unsettled() == 0 {
		c.drained = true
		c.out = append(c.out, Drained{})
	}
}

func (c *Consumer) setAppReady(now Now, ready bool) {
	c.appReady = ready
	if !ready {
		c.handBackNewest(now, c.sub.buffered)
	}
}
