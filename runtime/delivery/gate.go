package delivery

import "github.com/workpulling/workpulling/runtime/protocol"

// gate holds reloaded jobs back until the workers that may hold them are back, or one liveness period has passed.
// What is stored meanwhile passes: nobody can hold that, and between workers there is no order.
type gate struct {
	awaited map[string]struct{} // pod UIDs
	timer   *timer
}

func (g *gate) init(c *Controller) {
	g.timer = newTimer(func(Now) { c.openGate() })
}

// shut begins to wait for the workers that the queue knows. Those whose end this Controller has seen itself are not among them:
// before are the pods that were bound when it began to load.
func (c *Controller) shutGate(now Now, known []protocol.Incarnation, before map[string]struct{}) {
	awaited := map[string]struct{}{}
	for _, w := range known {
		_, bound := before[w.PodUID]
		if p := c.pods[w.PodUID]; p == nil || bound {
			awaited[w.PodUID] = struct{}{}
		}
	}
	for uid := range before {
		awaited[uid] = struct{}{}
	}
	if len(awaited) == 0 || c.backlog.jobs == 0 {
		return
	}
	c.gate.awaited = awaited
	c.backlog.hold()
	c.timers.set(c.gate.timer, now+c.cfg.Deadline)
}

// holders returns the pods that may hold jobs of this session: those that are bound, and those that are still waited for.
func (c *Controller) holders() map[string]struct{} {
	pods := map[string]struct{}{}
	for uid := range c.gate.awaited {
		pods[uid] = struct{}{}
	}
	for _, b := range c.roster.ring {
		pods[b.pod.uid] = struct{}{}
	}
	return pods
}

// arrived notes that nobody need be waited for any more on account of this pod: it is back, or gone for good.
func (c *Controller) arrived(podUID string) {
	if len(c.gate.awaited) == 0 {
		return
	}
	if delete(c.gate.awaited, podUID); len(c.gate.awaited) == 0 {
		c.openGate()
	}
}

func (c *Controller) openGate() {
	c.members.changed = c.members.changed || len(c.gate.awaited) > 0
	c.gate.awaited = nil
	c.timers.stop(c.gate.timer)
	c.backlog.unhold()
}

// prolongGate grants a full period again: this process stood still, and the workers may have knocked in vain.
func (c *Controller) prolongGate(now Now) {
	if c.gate.timer.armed() {
		c.timers.set(c.gate.timer, max(c.gate.timer.at, now+c.cfg.Deadline)) // never earlier, should the deadline be shorter by now
	}
}
