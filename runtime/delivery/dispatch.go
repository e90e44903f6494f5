package delivery

// dispatch gives the backlog's head to the next worker in turn, as long as there are both (G-053). A probe prefers a job that nobody
// has failed yet: a few hopeless jobs must not keep a revision paused.
func (c *Controller) dispatch(now Now) {
	for c.dispatching && c.roster.free > 0 {
		j := c.backlog.head()
		if j == nil {
			return
		}
		b := c.roster.next(j.last)
		if free := b.freeDemand(c, now); free != b.free {
			c.refresh(now, b) // silent for too long since it was last looked at
			continue
		}
		if r := b.revision; r.open {
			j = c.backlog.untried(j)
			r.probe = j
		}
		c.backlog.take(j)
		c.give(b, j)
	}
}

// give assigns the next worker sequence before anything is sent (G-054).
func (c *Controller) give(b *binding, j *job) {
	j.redelivered = j.dispatched || j.reloaded
	if j.dispatched || j.attempts+j.uncounted > 0 {
		c.counts.redelivered++
	}
	c.assign(b, j)
	c.frame(j, j.body)
	if c.memory > c.cfg.MemoryBytes {
		c.unload(j)
	}
	c.roster.setFree(b, b.free-1)
}

func (c *Controller) assign(b *binding, j *job) {
	b.current++
	b.slots.push(j)
	b.bound++
	c.inFlight++
	j.place, j.binding, j.workerSeq = bound, b, b.current
	j.dispatched = true
}

// resend repeats what a worker misses: everything unsettled in its demand that it has not started (G-071), and that the rest was
// taken over. What it started it has, so a long job is not sent again and again; but it must have said so on this stream, for it
// may have come back from another controller and begun the binding anew.
func (c *Controller) resend(b *binding, from, to int64) {
	from = max(from, b.told+1, b.slots.first)
	for seq := from; seq <= min(to, b.current); seq++ {
		j := b.slots.at(seq)
		switch {
		case j == nil:
			c.tellTaken(b, seq)
		case j.place != bound:
		case j.loaded():
			c.frame(j, j.body)
		default:
			c.want(j)
		}
	}
}

// recall asks the worker with the most unstarted jobs for a fair share of them, when others are idle and the backlog has
// nothing for them (B-109). At most once in half a heartbeat; only then does it look at every binding.
func (c *Controller) recall(now Now) {
	if now < c.nextRecall || !c.dispatching || c.backlog.jobs > 0 || c.roster.free == 0 || c.inFlight < 2 {
		return
	}
	c.nextRecall = now + c.cfg.Heartbeat/2
	idle := 0
	var richest *binding
	for _, b := range c.roster.ring {
		if b.free > 0 && b.bound == 0 {
			idle++
		}
		if b.conn != nil && !b.draining && (richest == nil || b.unstarted() > richest.unstarted()) {
			richest = b
		}
	}
	if idle == 0 || richest == nil || richest.unstarted() == 0 {
		return
	}
	spare := richest.unstarted()
	if spare == richest.bound {
		spare-- // it is about to start one
	}
	if n := (spare*idle + idle) / (idle + 1); spare > 0 && n > 0 {
		c.toWorker(richest.conn.conn, handBack(richest, min(n, spare)))
	}
}
