package delivery

import (
	"fmt"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// ack takes settlements in. Each counts alone, and only if binding, sequence, MessageID and attempt all match (B-141).
func (c *Controller) ack(now Now, b *binding, m protocol.Ack) {
	if !c.noteStarted(now, b, m.StartedSeq) {
		return
	}
	for _, s := range m.Settlements {
		if s.WorkerSeq < 1 || s.WorkerSeq > b.current {
			c.violation(now, b, fmt.Sprintf("sequence %d was settled and never sent", s.WorkerSeq))
			return
		}
		c.settle(now, b, s)
	}
	c.refresh(now, b)
	c.retireSpent(now, b)
}

func (c *Controller) settle(now Now, b *binding, s protocol.Settlement) {
	j := b.find(s.WorkerSeq)
	if j == nil { // taken over before: the worker missed that
		c.tellTaken(b, s.WorkerSeq)
		return
	}
	if !j.named(s) || s.Outcome < protocol.Confirmed || s.Outcome > protocol.Inadmissible {
		c.drop("settlement-mismatch")
		return
	}
	if j.place != bound {
		c.drop("settlement-repeated") // it is on its way to the queue
		return
	}
	b.bound--
	c.inFlight--
	c.unwant(j)
	j.reason = reasonOf(s)
	excused := b.revision.excuses(j)
	c.judge(now, b.revision, j, s.Outcome)
	switch s.Outcome {
	case protocol.Confirmed:
		c.end(j, false)
	case protocol.Rejected:
		j.attempts++
		c.end(j, true)
	case protocol.Nacked, protocol.Abandoned, protocol.Inadmissible:
		c.counts.nacked++
		c.letGo(b, j)
		if excused {
			c.wait(now, j, c.jobBackoff(1))
			return
		}
		c.failed(now, j)
	case protocol.Delayed:
		c.letGo(b, j)
		c.postpone(now, j, s.RetryAfter)
	case protocol.HandedBack:
		c.counts.handedBack++
		c.letGo(b, j)
		c.handedBack(now, j, s.WorkerSeq <= b.started)
	}
}

// named reports whether a settlement of the job's worker sequence speaks of this delivery. A refused envelope says nothing else that
// could be relied on, and costs an attempt at most.
func (j *job) named(s protocol.Settlement) bool {
	return s.Outcome == protocol.Inadmissible || j.body.MessageID == s.MessageID && j.attempt() == s.Attempt
}

// reasonOf is the worker's reason, or what the outcome alone says: no dead letter is without one.
func reasonOf(s protocol.Settlement) string {
	if reason := protocol.ClipReason(s.Reason); reason != "" {
		return reason
	}
	switch s.Outcome {
	case protocol.Confirmed:
		return ""
	case protocol.Rejected:
		return "the handler rejected the job"
	case protocol.Abandoned:
		return "the handler ran past its timeout"
	case protocol.HandedBack:
		return "the app could not be reached"
	case protocol.Inadmissible:
		return "the worker refused the delivery"
	default:
		return "the handler failed"
	}
}

// end sends a job to its durable end. Its worker may forget it only when that is written, so that a crash here does not run a
// finished job again.
func (c *Controller) end(j *job, dead bool) {
	if j.binding != nil {
		j.binding.settling++
	}
	c.unload(j)
	j.place, j.dead = settling, dead
	c.counts.settling++
	c.queueEnd(j)
}

// letGo takes a settled job out of its binding.
func (c *Controller) letGo(b *binding, j *job) {
	seq := j.workerSeq
	b.slots.set(seq, nil)
	for b.slots.len() > 0 && b.slots.at(b.slots.first) == nil {
		b.slots.pop()
	}
	j.binding, j.workerSeq = nil, 0
	j.last = b.pod.number
	c.tellTaken(b, seq)
}

// releaseSettled lets the worker forget a job whose end is durable, or kept by the Controller alone.
func (c *Controller) releaseSettled(now Now, j *job) {
	b := j.binding
	if b == nil {
		return
	}
	b.settling--
	c.letGo(b, j)
	c.refresh(now, b)
	c.retireSpent(now, b)
}

func (c *Controller) tellTaken(b *binding, seq int64) {
	b.settle = true
	b.above = append(b.above, seq)
	c.mark(b)
}

// failed counts a try and decides what comes next: a back-off or the dead letters.
func (c *Controller) failed(now Now, j *job) {
	j.attempts++
	if c.cfg.MaxAttempts > 0 && int(j.attempts) >= c.cfg.MaxAttempts {
		c.end(j, true)
		return
	}
	c.queueCounters(j)
	c.wait(now, j, c.jobBackoff(int(j.attempts)))
}

// postpone grants the wait that a handler asked for; it costs no attempt.
func (c *Controller) postpone(now Now, j *job, asked time.Duration) {
	if asked <= 0 {
		asked = c.jobBackoff(1)
	}
	c.wait(now, j, min(asked, protocol.MaxRetryAfter))
}

// handedBack puts an untouched job back. One whose app could not be reached comes back later, and not without end.
func (c *Controller) handedBack(now Now, j *job, started bool) {
	if !started {
		c.backlog.requeue(j)
		return
	}
	c.wasted(now, j, c.jobBackoff(1))
}
