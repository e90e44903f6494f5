package delivery

import (
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// fullPause is when to submit again what the queue had no room for.
const fullPause = 5 * time.Second

// turnAway answers the jobs of a batch that the queue has no room for (B-239). Nothing of the batch was written, nor will be, so there is
// nothing to repeat or to find out by a load: bindings, session and credit stay, and what was stored before goes on. The rest of the batch
// goes again, and from now on apart from jobs.
func (c *Controller) turnAway(now Now, b batch, err error) {
	l := &c.lane
	l.full, l.fullAt = err, now
	l.putBack(b.settles)
	rest := l.accepts
	l.accepts.reset(0)
	for _, ref := range b.accepts {
		l.accepts.push(ref)
	}
	for rest.len() > 0 {
		l.accepts.push(rest.pop())
	}
	for _, h := range b.stores {
		c.refuseStore(h, "the queue is full: "+err.Error())
	}
}

// Fullness is when the queue turned the latest new job away, and why; nil while it has room.
func (c *Controller) Fullness() (Now, error) { return c.lane.fullAt, c.lane.full }

// refuseStore ends a handshake without a store. Its token is used up: a late repeat of it must not be taken for a new job.
func (c *Controller) refuseStore(h *handshake, reason string) {
	c.storing--
	h.job = protocol.Job{}
	e := h.endpoint
	if !e.attached || h.session != c.session {
		return
	}
	e.complete(completion{h.token, h.id, h.digest})
	c.drop(string(protocol.RefusedQueueFull))
	c.toProducer(e.conn, protocol.Refused{
		Session: h.session, Token: h.token, MessageID: h.id, Code: protocol.RefusedQueueFull,
		Reason: protocol.ClipReason(reason), RetryAfter: fullPause,
	})
	c.starve(e)
}

// tookNew notes that the queue has room again. A repeat of a known job says nothing about that.
func (l *lane) tookNew(results []queue.StoreResult) {
	if l.full != nil && slices.ContainsFunc(results, func(r queue.StoreResult) bool { return r.Verdict == protocol.StoredNew }) {
		l.full = nil
	}
}

// gatherApart is gather for a full queue, where a job without room must not hold up what needs none: the kinds go in turns.
func (c *Controller) gatherApart() batch {
	l := &c.lane
	for range 2 {
		b := batch{cursor: c.cursor}
		if l.turn = !l.turn; l.turn {
			l.takeStores(&b, c.cfg.MaxBatch)
		} else {
			l.takeAccepts(&b, c.cfg.MaxBatch/2)
			b.settles = l.takeSettles(c.cfg.MaxBatch - len(b.accepts))
		}
		if !b.empty() {
			return b
		}
	}
	return batch{}
}
