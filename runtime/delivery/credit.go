package delivery

import (
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// starve queues an endpoint that could use more credit.
func (c *Controller) starve(e *endpoint) {
	if e.attached && !e.hungry && e.idle == 0 && e.room() > 0 {
		e.hungry = true
		c.hungry.push(e)
	}
}

// room is how many more tokens the endpoint may hold: its open handshakes count, and it may not run ahead without bound of
// a token that it never uses.
func (e *endpoint) room() int {
	credits := e.maxCredits - int(e.upTo-e.completed)
	span := int(e.low() + uint64(e.maxCredits) + tokenSpan - e.upTo)
	return min(credits, span)
}

// allowance is how many more tokens may be open in the whole flow (G-050). Demand counts once: against it stand
// all jobs that will need it, also those reloaded, requeued, delayed or on their way into the queue.
func (c *Controller) allowance() int {
	if !c.intake || c.lane.withheld {
		return 0
	}
	ahead := c.backlog.jobs + c.backlog.delayed.len() + c.storing
	allowed := c.roster.free - ahead
	jobs, bytes := c.cfg.BacklogJobs, c.cfg.BacklogBytes
	if jobs > 0 || bytes > 0 {
		if bytes > 0 && c.backlog.bytes >= bytes {
			return 0
		}
		if jobs == 0 {
			jobs = ahead + maxCredits // bounded by bytes alone
		}
		allowed = max(allowed, jobs-ahead)
	}
	return int(min(int64(allowed-c.openGrants+c.idleGrants), c.sequencesLeft()-int64(c.openGrants)))
}

// grant gives what the flow allows to the endpoints that wait for it, in turns.
func (c *Controller) grant(now Now) {
	if c.hungry.len() == 0 {
		return
	}
	allowed := c.allowance()
	for allowed > 0 && c.hungry.len() > 0 {
		share := max(1, allowed/c.hungry.len())
		for range c.hungry.len() {
			e := c.hungry.pop()
			e.hungry = false
			n := 0
			if e.attached && e.idle == 0 {
				n = min(share, e.room(), allowed)
			}
			if n > 0 {
				allowed -= n
				c.grantTo(now, e, n)
			}
			c.starve(e)
		}
	}
	for _, e := range c.granted {
		e.granted = false
		c.tellGrant(e)
	}
	c.granted = c.granted[:0]
}

func (c *Controller) grantTo(now Now, e *endpoint, n int) {
	e.upTo += uint64(n)
	c.openGrants += n
	e.grantPause = c.cfg.RetryInterval
	c.timers.set(e.grantTimer, now+e.grantPause)
	if !e.granted {
		e.granted = true
		c.granted = append(c.granted, e)
	}
}

func (c *Controller) tellGrant(e *endpoint) {
	c.toProducer(e.conn, protocol.RequestNext{Session: c.session, UpTo: e.upTo})
}

// repeatGrant repeats an unanswered grant, slower and slower: it may have been lost, more likely there is no work (G-031, B-110).
func (c *Controller) repeatGrant(now Now, e *endpoint) {
	if e.unanswered() == 0 || c.phase != PhaseRunning {
		return
	}
	c.tellGrant(e)
	c.setIdle(e, e.unanswered())
	e.grantPause = slower(e.grantPause)
	c.timers.set(e.grantTimer, now+e.grantPause)
}

// setIdle says how many of the endpoint's open tokens do not count for now, because it has nothing to use them for. Without
// that, an endpoint without jobs could keep the last credit of the flow from one that has some. Nothing is taken back: if it
// uses them after all, the backlog exceeds its bound by that much, and until then it gets no more.
func (c *Controller) setIdle(e *endpoint, tokens int) {
	c.idleGrants += tokens - e.idle
	e.idle = tokens
}

// slower is the idle back-off of every repeating timer.
func slower(d time.Duration) time.Duration { return min(d+d/2, max(d, maxBackoff)) }
