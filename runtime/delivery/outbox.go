package delivery

import (
	"github.com/workpulling/workpulling/runtime/protocol"
)

// outbox gathers settlements for the next Ack.
type outbox struct {
	pending []*entry
	timer   *timer
	due     bool
}

const (
	// ackBatch is how many settlements are not worth waiting for more.
	ackBatch = 64
	// ackLimit bounds one Ack.
	ackLimit = 1024
)

func (o *outbox) init(c *Consumer) {
	o.timer = newTimer(func(Now) { o.due = true })
}

// add queues a settlement. The first one starts the clock of the batch.
func (o *outbox) add(now Now, c *Consumer, e *entry) {
	e.sent = false
	o.pending = append(o.pending, e)
	if !o.timer.armed() && !o.due {
		c.timers.set(o.timer, now+c.cfg.ConfirmDelay)
	}
}

// flushSoon sends the batch when its time is over, when it is big, or when nothing else runs that could join it. It waits for the word
// about the binding: a controller that does not know it would lose the settlements, and the next binding may have a place for them.
func (c *Consumer) flushSoon(now Now) {
	o := &c.outbox
	if len(o.pending) == 0 || !c.bound() || !c.connected || c.registration.unanswered {
		return
	}
	if o.due || len(o.pending) >= min(ackBatch, max(1, c.registration.window/2)) || c.runs == 0 {
		c.flushPending(now)
	}
}

func (c *Consumer) flushPending(now Now) {
	o := &c.outbox
	for rest := o.pending; len(rest) > 0; {
		n := min(ackLimit, len(rest))
		c.sendAck(now, rest[:n])
		rest = rest[n:]
	}
	clear(o.pending)
	o.pending, o.due = o.pending[:0], false
	c.timers.stop(o.timer)
}

func (c *Consumer) sendAck(now Now, entries []*entry) {
	settlements := make([]protocol.Settlement, 0, len(entries))
	for _, e := range entries {
		if e.state == settledEntry {
			e.sent, e.sentAt = true, now
			settlements = append(settlements, e.settlement)
		}
	}
	if len(settlements) > 0 {
		c.send(protocol.Ack{BindingRef: c.registration.ref, StartedSeq: c.sub.started, Settlements: settlements})
		c.spoke(now)
	}
}

// repeatSettlements sends again what was sent at least age ago and is not taken over; false if there is nothing.
func (c *Consumer) repeatSettlements(now Now, age Now) bool {
	if c.registration.unanswered {
		return false
	}
	var again []*entry
	for n := c.sub.entries.first; n < c.sub.entries.end() && len(again) < ackLimit; n++ {
		if e := c.sub.entries.at(n); e != nil && e.state == settledEntry && e.sent && now-e.sentAt >= age {
			again = append(again, e)
		}
	}
	if len(again) == 0 {
		return false
	}
	c.sendAck(now, again)
	return true
}

// forget drops the batch of a binding that is over.
func (o *outbox) forget(c *Consumer) {
	clear(o.pending)
	o.pending, o.due = o.pending[:0], false
	c.timers.stop(o.timer)
}

// remember keeps a confirmed job whose binding ended before the controller had taken it over: should it be delivered again, its
// outcome answers, not its handler (B-238).
func (c *Consumer) remember(p *producer, id string, j rememberedJob) {
	p.confirmed.add(id, j, c.memoryLimit)
	c.registration.untold = true
}

// recall returns and forgets the remembered outcome of a job; the settlement that it becomes remembers it from now on.
func (c *Consumer) recall(d *protocol.Delivery) (reason string, ok bool) {
	jobs := c.producer.confirmed.jobs
	j, ok := jobs[d.Job.MessageID]
	if !ok || j.identity != identityOf(d) {
		return "", false
	}
	delete(jobs, d.Job.MessageID)
	return j.reason, true
}
