package delivery

import (
	"slices"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// settlementState is how the lane's settlements fare: calm, failing, or being searched for the one that fails (B-233).
//
// A failing batch is repeated with growing pauses for ever. After IsolateConfirmAfter the waiting settlements are halved
// until the rows that fail stand alone; those are set apart and retried one by one, and the others go on.
type settlementState struct {
	failing  bool
	since    Now
	tries    int
	retryAt  *timer
	segments [][]settleOp // of the search, last first; empty outside one
	lone     deque[settleOp]
	loneAt   *timer
	lonePace int
}

func (s *settlementState) init() {
	s.retryAt = newTimer(func(Now) {})
	s.loneAt = newTimer(func(Now) {})
}

// calm reports whether settlements may share a batch with handshake operations.
func (s *settlementState) calm() bool { return !s.failing && (s.lone.len() == 0 || s.loneAt.armed()) }

// due reports whether a batch of settlements should go now.
func (s *settlementState) due() bool {
	if s.failing {
		return !s.retryAt.armed()
	}
	return s.lone.len() > 0 && !s.loneAt.armed()
}

// suspect begins to keep settlements apart, without a pause: so far nobody knows which kind failed.
func (s *settlementState) suspect(now Now) {
	if !s.failing {
		s.failing, s.since, s.tries = true, now, 0
	}
}

// nextSettlements is the next batch of settlements alone.
func (c *Controller) nextSettlements() batch {
	s := &c.lane.settlement
	if s.failing && s.retryAt.armed() {
		return batch{}
	}
	if segment := s.nextSegment(); len(segment) > 0 {
		return batch{settles: segment, probe: true}
	}
	for !s.failing && !s.loneAt.armed() && s.lone.len() > 0 {
		op := s.lone.pop()
		if op.current() {
			return batch{settles: []settleOp{op}, lone: true}
		}
		c.counts.isolated--
	}
	return batch{settles: c.lane.takeSettles(c.cfg.MaxBatch)}
}

// nextSegment takes the next part of the search, without what ended meanwhile.
func (s *settlementState) nextSegment() (segment []settleOp) {
	for len(segment) == 0 && len(s.segments) > 0 {
		last := len(s.segments) - 1
		segment = slices.DeleteFunc(s.segments[last], func(op settleOp) bool { return !op.current() })
		s.segments = s.segments[:last]
	}
	return segment
}

func (c *Controller) settlementsWritten(now Now, b batch) {
	l := &c.lane
	s := &l.settlement
	for _, op := range b.settles {
		if op.end {
			c.ended(now, op.job)
		}
	}
	switch {
	case b.lone:
		s.lonePace = 0 // the store takes such rows again: the other isolated ones follow at once
		c.counts.isolated = s.lone.len()
		if s.lone.len() == 0 && !s.failing {
			l.settleErr = nil
		}
	case !b.probe || len(s.segments) == 0:
		c.settlementsCalm()
	}
}

func (c *Controller) settlementsCalm() {
	l := &c.lane
	s := &l.settlement
	s.failing, s.tries = false, 0
	c.timers.stop(s.retryAt)
	l.withheld, l.settleErr = false, nil
}

// settlementsGone ends a streak of failures when nothing is left that could fail or succeed: a reload may find that what
// failed was written after all. Without that, credit would be withheld for ever.
func (c *Controller) settlementsGone() bool {
	s := &c.lane.settlement
	if !s.failing || c.lane.settles.len()+len(s.segments) > 0 {
		return false
	}
	err := c.lane.settleErr
	c.settlementsCalm()
	if s.lone.len() > 0 {
		c.lane.settleErr = err // stays visible while a row stands apart
	}
	return true
}

func (c *Controller) settlementsNotWritten(now Now, b batch, err error) {
	l := &c.lane
	s := &l.settlement
	l.settleErr = err
	if b.lone {
		s.lone.push(b.settles[0])
		c.restLone(now)
		return
	}
	s.suspect(now)
	s.tries++
	l.withheld = l.withheld || s.tries >= c.cfg.QueueAttempts
	switch {
	case b.probe || now-s.since >= c.cfg.IsolateConfirmAfter:
		c.split(now, b.settles)
		c.timers.set(s.retryAt, now+c.cfg.QueueBackoff)
	default:
		l.putBack(b.settles)
		wait := backoff(c.random, c.cfg.QueueBackoff, maxBackoff, s.tries)
		c.timers.set(s.retryAt, min(now+wait, max(now+c.cfg.QueueBackoff, s.since+c.cfg.IsolateConfirmAfter)))
	}
}

// split halves a segment that failed, or sets its only settlement apart.
func (c *Controller) split(now Now, ops []settleOp) {
	s := &c.lane.settlement
	for _, op := range ops {
		op.renew()
	}
	if half := len(ops) / 2; half > 0 {
		s.segments = append(s.segments, slices.Clone(ops[half:]), slices.Clone(ops[:half]))
		return
	}
	for _, op := range ops {
		c.isolate(now, op)
	}
	if len(s.segments) == 0 {
		err := c.lane.settleErr
		c.settlementsCalm()
		c.lane.settleErr = err // stays visible while a row stands apart
	}
}

// isolate sets one settlement apart. Its worker is released from it: the Controller alone keeps it now.
func (c *Controller) isolate(now Now, op settleOp) {
	s := &c.lane.settlement
	s.lone.push(op)
	c.counts.isolated = s.lone.len()
	if op.end {
		op.job.isolated = true
		c.releaseSettled(now, op.job)
	}
	c.restLone(now)
}

func (c *Controller) restLone(now Now) {
	s := &c.lane.settlement
	s.lonePace++
	c.timers.set(s.loneAt, now+backoff(c.random, c.cfg.QueueBackoff, maxBackoff, s.lonePace+6))
}

// ended finishes a job whose confirm or dead letter is durable.
func (c *Controller) ended(now Now, j *job) {
	if c.jobs[j.body.MessageID] != j {
		return
	}
	delete(c.jobs, j.body.MessageID)
	c.counts.settling--
	c.releaseSettled(now, j)
	j.place = 0
	if j.dead {
		c.counts.deadLettered++
		c.counts.deadLetters++
		if j.finished {
			c.emit(ResolveClaims{Epoch: c.epoch, Refs: []queue.JobRef{j.ref()}})
		}
	} else {
		c.counts.confirmed++
		c.notify(j.ref())
	}
	c.todo.settled(JobSettled{Ref: j.ref(), DeadLettered: j.dead, Reason: j.reason})
}

func (c *Controller) notify(ref queue.JobRef) {
	if !c.cfg.DeliveryConfirmation {
		return
	}
	for _, e := range c.endpointsL {
		if e.notify {
			c.toProducer(e.conn, protocol.DeliveryConfirmed{Session: c.session, MessageID: ref.MessageID, StoreSeq: ref.StoreSeq})
		}
	}
}
