package delivery

import (
	"cmp"
	"slices"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// claims takes in what a worker says it holds, and returns what of it is in its binding now and what it need not say again.
// A claim counts by its ticket alone; one that proves nothing, or that the job has moved on from, changes nothing and is counted.
func (c *Controller) claims(now Now, b *binding, claims []protocol.Claim) ([]protocol.Adopted, []protocol.ClaimRef) {
	if len(claims) == 0 {
		return nil, nil
	}
	var held []*job
	var ended []protocol.ClaimRef
	var unknown []queue.JobRef
	for _, claim := range claims {
		proven := c.tickets.prove(b.pod.uid, claim)
		if claim.State == protocol.ClaimLost {
			ended = append(ended, claim.Ref()) // said once, it is said
		}
		if !proven {
			c.drop("claim-ticket")
			continue
		}
		j := c.find(queue.JobRef(claim.Ref()))
		switch {
		case j != nil:
			c.claim(now, b, j, claim)
			if j.binding == b {
				held = append(held, j)
			}
		case claim.State == protocol.ClaimConfirmed && claim.StoreSeq <= c.cursor:
			unknown = append(unknown, queue.JobRef(claim.Ref()))
		}
	}
	if len(unknown) > 0 && !b.resolving {
		b.resolving = true
		c.emit(ResolveClaims{Epoch: c.epoch, PodUID: b.pod.uid, BindingID: b.id, Refs: unknown})
	}
	return c.adopted(b, held), ended
}

func (c *Controller) adopted(b *binding, held []*job) []protocol.Adopted {
	slices.SortFunc(held, func(x, y *job) int { return cmp.Compare(x.workerSeq, y.workerSeq) })
	held = slices.Compact(held)
	adopted := make([]protocol.Adopted, len(held))
	for i, j := range held {
		adopted[i] = protocol.Adopted{
			WorkerSeq: j.workerSeq, StoreSeq: j.seq, MessageID: j.body.MessageID, Attempt: j.attempt(), Ticket: c.ticket(b, j),
		}
	}
	return adopted
}

// claim settles one proven claim of a live job.
func (c *Controller) claim(now Now, b *binding, j *job, claim protocol.Claim) {
	switch claim.State {
	case protocol.ClaimConfirmed:
		c.finishClaimed(now, b, j, claim.Reason)
	case protocol.ClaimRunning:
		c.resumeClaimed(b, j, claim.Attempt)
	case protocol.ClaimLost:
		c.countLost(now, b, j, claim.Attempt)
	}
}

// resumeClaimed gives a running job to the worker that runs it. An older attempt than the job is at was counted as failed or lost
// since; a newer one was given out before a crash that its count did not survive.
func (c *Controller) resumeClaimed(b *binding, j *job, attempt int) {
	switch {
	case j.binding == b:
	case !j.pending():
		c.drop("claim-moved")
	case attempt < j.attempt():
		c.drop("claim-attempt")
	case !b.roomToAdopt():
		c.drop("claim-span")
	default:
		c.withdraw(j)
		c.adoptInto(b, j)
		c.counts.adopted++
	}
}

// finishClaimed completes a job wherever it is: proof that its handler finished beats whatever was planned for it since. A copy at
// another worker is taken over as if that one had confirmed it; what it says later changes nothing (B-143).
func (c *Controller) finishClaimed(now Now, b *binding, j *job, reason string) {
	switch j.place {
	case settling:
		j.finished = j.dead // a dead letter is confirmed once it is written
		return
	case bound:
		j.binding.bound--
		c.inFlight--
		c.unwant(j)
		if j.binding != b { // a probe that is taken back has said nothing
			c.judge(now, j.binding.revision, j, protocol.HandedBack)
		}
	default:
		c.withdraw(j)
		if b != nil && b.roomToAdopt() { // so that its worker hears when the confirm is durable
			c.adoptInto(b, j)
			b.bound--
			c.inFlight--
		}
	}
	if b != nil {
		c.judge(now, b.revision, j, protocol.Confirmed)
	}
	j.reason = reason
	c.counts.claimed++
	c.end(j, false)
}

// countLost counts a try whose end nobody will ever tell, and lets the job start again at once, like one whose worker was lost.
func (c *Controller) countLost(now Now, b *binding, j *job, attempt int) {
	switch {
	case !j.pending():
		c.drop("claim-moved")
	case attempt != j.attempt():
		c.drop("claim-attempt") // counted by what its worker reported, or older than a redrive
	default:
		c.withdraw(j)
		j.last = b.pod.number
		j.reason = "the worker's process was lost while it ran the job"
		c.crashed(now, j)
	}
}

// adoptInto gives a job of the backlog the next worker sequence without sending it: the worker has it.
func (c *Controller) adoptInto(b *binding, j *job) {
	first := b.started == b.current
	c.assign(b, j)
	j.redelivered = true
	c.unload(j)
	b.demand = max(b.demand, b.current)
	b.adopted++
	if first { // jobs start in the order of their sequences, so this says nothing of one before it
		b.started = b.current
	}
}

func (b *binding) roomToAdopt() bool {
	return b.current < protocol.MaxSequence && b.slots.len() < maxSpan
}

func (c *Controller) tellClaimsEnded(b *binding, ended []protocol.ClaimRef) {
	if len(ended) > 0 && b.conn != nil {
		c.toWorker(b.conn.conn, protocol.ClaimsEnded{BindingID: b.id, Ended: ended})
	}
}

// claimsResolved tells the worker which of its claims had ended before, and completes what lay among the dead letters.
func (c *Controller) claimsResolved(now Now, ev ClaimsResolved) {
	for _, ref := range ev.Confirmed {
		if j := c.find(ref); j != nil {
			c.finishClaimed(now, nil, j, "") // a person was quicker and put it back
			continue
		}
		if ev.Epoch == c.epoch {
			c.counts.deadLetters--
		}
		c.counts.claimed++
		c.completed(ref, c.seen(ref))
	}
	for _, ref := range ev.Ended {
		switch j := c.seen(ref); {
		case j == nil:
		case slices.Contains(ev.Dropped, ref): // its handler was too late
			c.todo.settled(JobSettled{Ref: ref, DeadLettered: true, Reason: "a person dropped it"})
		default:
			c.completed(ref, j)
		}
	}
	p := c.pods[ev.PodUID]
	if p == nil || p.binding == nil || p.binding.id != ev.BindingID {
		return
	}
	p.binding.resolving = false
	ended := make([]protocol.ClaimRef, len(ev.Ended))
	for i, ref := range ev.Ended {
		ended[i] = protocol.ClaimRef(ref)
	}
	c.tellClaimsEnded(p.binding, ended)
}

// completed tells of a job that is not among the stored ones, and whose confirm is durable; finished is what is known of it, or nil.
func (c *Controller) completed(ref queue.JobRef, finished *job) {
	c.counts.confirmed++
	c.notify(ref)
	settled := JobSettled{Ref: ref}
	if finished != nil {
		settled.Reason = finished.reason
	}
	c.todo.settled(settled)
}

// ticket is what the binding's worker can claim the job with.
func (c *Controller) ticket(b *binding, j *job) protocol.Ticket {
	return c.tickets.of(b.pod.uid, j.seq, j.attempt(), j.body.MessageID)
}
