package delivery

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// claims is everything that this worker was given and no controller has taken over, as far as it can prove it: what runs, in the
// order of the starts, what was confirmed, and what an earlier process of the pod left behind. An abandoned run
// is none: its outcome is told already, or lost with its binding.
func (c *Consumer) claims() []protocol.Claim {
	var claims []protocol.Claim
	for _, r := range c.running.ordered() {
		if r.consumer == c && !r.abandoned {
			claims = appendClaim(claims, r.messageID, r.held, protocol.ClaimRunning, "")
		}
	}
	for n := c.sub.entries.first; n < c.sub.entries.end(); n++ {
		if e := c.sub.entries.at(n); e != nil && e.state == settledEntry && e.settlement.Outcome == protocol.Confirmed {
			claims = appendClaim(claims, e.settlement.MessageID, e.held, protocol.ClaimConfirmed, e.settlement.Reason)
		}
	}
	for _, p := range c.group.dedup.of(c.flow) {
		for _, id := range slices.Sorted(maps.Keys(p.confirmed.jobs)) {
			j := p.confirmed.jobs[id]
			claims = appendClaim(claims, id, j.held, protocol.ClaimConfirmed, j.reason)
		}
	}
	claims = append(claims, c.lost...)
	return claims[:min(len(claims), protocol.MaxClaims)]
}

func appendClaim(claims []protocol.Claim, id string, h held, state protocol.ClaimState, reason string) []protocol.Claim {
	if h.ticket.IsZero() {
		return claims // of a controller that knows of no tickets
	}
	return append(claims, protocol.Claim{
		StoreSeq: h.storeSeq, MessageID: id, Attempt: h.attempt, Ticket: h.ticket, State: state, Reason: protocol.ClipClaimReason(reason),
	})
}

// held is what a claim needs to know of the delivery that it speaks of: the latest one of the job.
type held struct {
	storeSeq int64
	attempt  int
	ticket   protocol.Ticket
}

func heldOf(d *protocol.Delivery) held { return held{d.StoreSeq, d.Attempt, d.Ticket} }

func (r *running) ordered() []*run {
	return slices.SortedFunc(maps.Values(r.byRun), func(a, b *run) int { return cmp.Compare(a.id, b.id) })
}

// claimSoon registers again if a job was finished that no delivery of the binding waits for: only a claim can tell of it.
func (c *Consumer) claimSoon(now Now) {
	r := &c.registration
	if r.unclaimed && c.connected && r.nonce == "" && !r.timer.armed() {
		r.pause = c.cfg.ResendInterval
		c.timers.set(r.timer, now+startReport)
	}
}

// adopt puts the jobs that the controller found by their claims into the binding, as if they had been delivered in it.
func (c *Consumer) adopt(now Now, adopted []protocol.Adopted) {
	s := &c.sub
	for _, a := range adopted {
		if a.WorkerSeq < s.entries.first || a.WorkerSeq-s.entries.first >= maxSpan || s.at(a.WorkerSeq) != nil {
			continue // it is where it belongs already, or never can be
		}
		s.demand = max(s.demand, a.WorkerSeq)
		e := &entry{state: bufferedEntry, delivery: protocol.Delivery{
			WorkerSeq: a.WorkerSeq, StoreSeq: a.StoreSeq, Attempt: a.Attempt, Ticket: a.Ticket, Job: protocol.Job{MessageID: a.MessageID},
		}}
		s.put(a.WorkerSeq, e)
		c.resume(now, e)
	}
	if len(adopted) == 0 {
		return
	}
	s.started = max(s.started, s.watermark())
	for e := s.at(s.started + 1); e != nil && e.state != bufferedEntry; e = s.at(s.started + 1) {
		s.started++
	}
}

// resume joins an adopted delivery with its run, or with what became of it since it was claimed.
func (c *Consumer) resume(now Now, e *entry) {
	id, storeSeq := e.delivery.Job.MessageID, e.delivery.StoreSeq
	r := c.running.byID[id]
	if r != nil && (r.consumer != c || r.identity.storeSeq != storeSeq) {
		r = nil
	}
	done, ok := c.producer.confirmed.jobs[id]
	switch {
	case r != nil && r.entry == nil && !r.abandoned:
		c.detached--
		c.attach(e, r)
	case r != nil && r.abandoned:
		c.settle(now, e, protocol.Abandoned, "the handler ran past its timeout", 0)
	case ok && done.identity.storeSeq == storeSeq:
		delete(c.producer.confirmed.jobs, id)
		e.identity = done.identity
		c.settle(now, e, protocol.Confirmed, done.reason, 0)
	default:
		word, ok := c.lastWords[id]
		if !ok || word.storeSeq != storeSeq {
			word = lastWord{outcome: protocol.Nacked, reason: "the handler failed while nobody took its word"}
		}
		c.settle(now, e, word.outcome, word.reason, word.retryAfter)
	}
}

// lastWord is what a handler said that ended without success while nobody could take it. Each registration begins anew with it, for it
// claims what runs then.
type lastWord struct {
	storeSeq   int64
	outcome    protocol.Outcome
	reason     string
	retryAfter time.Duration
}

// keepWord keeps it for the case that the job is adopted: a delay must not count as a failure then, nor a rejection be forgotten.
func (c *Consumer) keepWord(messageID string, word lastWord) {
	if c.lastWords == nil {
		c.lastWords = map[string]lastWord{}
	}
	c.lastWords[messageID] = word
}

// claimsEnded forgets what there is no more to say about.
func (c *Consumer) claimsEnded(m protocol.ClaimsEnded) {
	ended := make(map[protocol.ClaimRef]bool, len(m.Ended))
	for _, ref := range m.Ended {
		ended[ref] = true
		c.producer.confirmed.forget(ref.MessageID, ref.StoreSeq)
	}
	c.lost = slices.DeleteFunc(c.lost, func(claim protocol.Claim) bool { return ended[claim.Ref()] })
}
