package delivery

import (
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// owed are submissions whose answer a reload has cut off: what became of them is known when the queue is loaded and they are submitted
// again. Who has waited for answerWithin is told that it is not known for now (B-239).
type owed struct {
	debts []debt
	at    *timer
}

type debt struct {
	conn        ConnID
	session, id string
	token       uint64
	due         Now
}

// answerWithin is how long a submission stays without an answer while the queue cannot be loaded.
const answerWithin = 30 * time.Second

func (o *owed) init(c *Controller) {
	o.at = newTimer(c.settleOwed)
}

// owe notes the submissions of an endpoint that have no answer; the tokens end.
func (c *Controller) owe(now Now, e *endpoint) {
	for n := e.tokens.first; n < e.tokens.end(); n++ {
		if h := e.tokens.at(n); h != nil && h != completedMark && !h.stored {
			c.owed.debts = append(c.owed.debts, debt{e.conn, h.session, h.id, h.token, h.since + answerWithin})
		}
	}
	if len(c.owed.debts) > 0 {
		c.timers.set(c.owed.at, now)
	}
}

// settleOwed answers what is due, and looks again when the next is.
func (c *Controller) settleOwed(now Now) {
	left := c.owed.debts[:0]
	for _, d := range c.owed.debts {
		if d.due > now {
			left = append(left, d)
			continue
		}
		if c.endpoints[d.conn] == nil {
			continue
		}
		c.drop(string(protocol.RefusedUndecided))
		c.toProducer(d.conn, protocol.Refused{
			Session: d.session, Token: d.token, MessageID: d.id, Code: protocol.RefusedUndecided,
			Reason: "the queue does not answer: the job may be stored or not, and is safe to submit again", RetryAfter: fullPause,
		})
	}
	clear(c.owed.debts[len(left):])
	if c.owed.debts = left; len(left) == 0 {
		c.owed.debts = nil
		return
	}
	next := left[0].due
	for _, d := range left {
		next = min(next, d.due)
	}
	c.timers.set(c.owed.at, next)
}

// forgive forgets what is owed: a new session asks for all that has no answer.
func (c *Controller) forgive() {
	c.owed.debts = nil
	c.timers.stop(c.owed.at)
}
