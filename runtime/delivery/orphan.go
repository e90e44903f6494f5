package delivery

import "github.com/workpulling/workpulling/runtime/protocol"

// An orphan is a handler that an earlier sidecar process of this pod began: the app may still run it, and nobody will ever hear how it
// ends. It holds its slot and its MessageID, so that no second handler joins it (I-9), until the app that runs it is gone or the
// handler timeout has passed since this process knows of it. Its job is no business of this worker any more: it is claimed as lost.

// hold takes in what an earlier process of this pod ran when it died. It is claimed at every registration until a controller has ended
// it. What has no ticket cannot be claimed; it is an orphan all the same.
func (c *Consumer) hold(now Now, claims []protocol.Claim) {
	for _, claim := range claims {
		c.adoptOrphan(now, claim)
		if claim.Validate() == nil && len(c.lost) < protocol.MaxClaims {
			c.lost = append(c.lost, claim)
		}
	}
	if c.connected && len(claims) > 0 {
		c.register(now)
	}
}

func (c *Consumer) adoptOrphan(now Now, claim protocol.Claim) {
	if c.running.byID[claim.MessageID] != nil {
		return
	}
	c.running.last++
	r := &run{
		id: c.running.last, consumer: c, messageID: claim.MessageID, identity: identity{storeSeq: claim.StoreSeq},
		abandoned: true, orphan: true,
	}
	c.running.byID[r.messageID] = r
	c.running.byRun[r.id] = r
	c.running.orphans++
	if c.cfg.HandlerTimeout > 0 {
		r.timeout = newTimer(func(Now) { c.group.endOrphan(r) })
		c.timers.set(r.timeout, now+c.cfg.HandlerTimeout)
	}
}

// endOrphan frees the slot and the MessageID of an orphan.
func (g *ConsumerGroup) endOrphan(r *run) {
	g.release(r)
	g.running.orphans--
	g.todo.emit(OrphanEnded{MessageID: r.messageID})
}

func (g *ConsumerGroup) endOrphans() {
	for _, r := range g.running.ordered() {
		if r.orphan {
			g.endOrphan(r)
		}
	}
}
