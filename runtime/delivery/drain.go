package delivery

import "github.com/workpulling/workpulling/runtime/protocol"

// cordon stops demand of all flows. Without force it does so only if nothing is in flight, in one step, so that no job can start in
// between.
func (g *ConsumerGroup) cordon(now Now, force bool) {
	if !force && g.unsettled() > 0 {
		return
	}
	if force && !g.draining {
		g.draining, g.drained = true, false
	}
	if g.cordoned {
		return
	}
	g.cordoned = true
	for _, c := range g.flows {
		if c.bound() {
			c.send(protocol.Drain{BindingRef: c.registration.ref})
		}
		c.handBackNewest(now, c.sub.buffered)
	}
}

// uncordon takes demand up again. A fresh registration is what lifts the drain at the controllers.
func (g *ConsumerGroup) uncordon(now Now) {
	if !g.cordoned {
		return
	}
	g.cordoned, g.draining, g.drained = false, false, false
	for _, c := range g.flows {
		c.registration.pause = c.cfg.ResendInterval
		c.register(now)
	}
}

// checkDrained reports the end of a drain, once.
func (g *ConsumerGroup) checkDrained() {
	if g.draining && !g.drained && g.running.own() == 0 && g.unsettled() == 0 {
		g.drained = true
		g.todo.emit(Drained{})
	}
}

func (g *ConsumerGroup) setAppReady(now Now, ready bool) {
	g.appReady = ready
	if ready {
		return
	}
	for _, c := range g.flows {
		c.handBackNewest(now, c.sub.buffered)
	}
}
