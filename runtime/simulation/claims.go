package simulation

import (
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// gift is one attempt of one job in the hands of one pod.
type gift struct {
	podUID   string
	storeSeq int64
	attempt  int
}

// proof is what a true claim of a gift carries.
type proof struct {
	id     string
	ticket protocol.Ticket
}

// gave notes that a pod was given an attempt of a job.
func (l *ledger) gave(podUID string, ref queue.JobRef, attempt int, ticket protocol.Ticket) {
	l.given[gift{podUID, ref.StoreSeq, attempt}] = proof{ref.MessageID, ticket}
}

// proves reports whether a claim is true of what that pod was given, whatever became of it.
func (l *ledger) proves(podUID string, c protocol.Claim) bool {
	p, ok := l.given[gift{podUID, c.StoreSeq, c.Attempt}]
	return ok && p.id == c.MessageID && p.ticket == c.Ticket && !p.ticket.IsZero()
}

// guard is a worker process that ran or had finished a job when a new producer loaded it. If it comes back in time, nobody else
// may run the job (B-238).
type guard struct {
	sidecar *sidecar
	run     *run // nil if it had finished
	until   time.Duration
}

func (g guard) holds(f *flow, ref queue.JobRef) bool {
	if g.sidecar.gone || f.now >= g.until {
		return false
	}
	if g.run != nil && !g.run.done {
		return !g.run.canceled
	}
	return g.sidecar.view.finished[flowRef{f, ref}]
}

// guardJobs notes what known workers hold at the first load of a process.
func (v *controllerView) guardJobs(e delivery.Loaded) {
	known := map[string]bool{}
	for _, i := range e.State.Workers {
		known[i.PodUID] = true
	}
	until := v.p.clock.when(v.p.clock.read(v.w.now) + v.p.config.Deadline)
	if v.session != "" { // a reload waits anew, for a period that may be another one by now
		for _, guards := range v.guards {
			for i := range guards {
				guards[i].until = min(guards[i].until, until)
			}
		}
		return
	}
	for _, row := range e.Rows {
		if v.lost[row.MessageID] > 0 { // a claim that waited for the load: its job starts again at once
			continue
		}
		f := v.w.ledger.bySeq[row.StoreSeq]
		for _, pod := range v.w.pods {
			s := pod.sidecar
			if s == nil || f == nil || !known[pod.uid] {
				continue
			}
			r := s.runOf(v.w, row.JobRef)
			switch {
			case r != nil && !r.canceled && r.delivery.Attempt > row.Attempts && !r.delivery.Ticket.IsZero():
				v.guards[row.StoreSeq] = append(v.guards[row.StoreSeq], guard{s, r, until})
			case r == nil && s.view.finished[flowRef{v.w, row.JobRef}]:
				v.guards[row.StoreSeq] = append(v.guards[row.StoreSeq], guard{s, nil, until})
			}
		}
	}
}

// runOf is the invocation of a job that the sidecar waits for.
func (s *sidecar) runOf(f *flow, ref queue.JobRef) *run {
	for _, id := range sortedKeys(s.runs) {
		if r := s.runs[id]; !r.done && r.flow == f && r.delivery.StoreSeq == ref.StoreSeq && r.delivery.Job.MessageID == ref.MessageID {
			return r
		}
	}
	return nil
}

// checkGuards is B-238 at a dispatch.
func (v *controllerView) checkGuards(b *bindingView, ref queue.JobRef) {
	f := v.w.ledger.bySeq[ref.StoreSeq]
	if f == nil || f.released {
		return
	}
	for _, g := range v.guards[ref.StoreSeq] {
		told := v.gone[protocol.Incarnation{PodUID: g.sidecar.pod.uid, BootNonce: g.sidecar.name}] // that it is over, truly or not
		if g.sidecar.pod.uid != b.incarnation.PodUID && g.holds(v.w, ref) && !v.replaced(g.sidecar) && !told {
			v.w.violate("re-run", "%s dispatches %v to %s, %s of %s has it", v.p.name, ref, b.incarnation.PodUID, g.sidecar.name, g.sidecar.pod.name)
		}
	}
}

// replaced reports whether another process of its pod was bound here. A pod that has registered is back, even by a registration that a
// dead process has left behind: nobody can tell that from a process that was started since.
func (v *controllerView) replaced(s *sidecar) bool {
	return slices.ContainsFunc(v.processes[s.pod.uid], func(boot string) bool { return boot != s.name })
}

// claimed notes what a registration proves.
func (v *controllerView) claimed(conn delivery.ConnID, claims []protocol.Claim) {
	s := v.p.streams[conn]
	if s == nil {
		return
	}
	v.claims[conn] = v.claims[conn][:0]
	for _, c := range claims {
		if !v.w.ledger.proves(s.peer.where().uid, c) {
			continue
		}
		v.claims[conn] = append(v.claims[conn], c)
		ref := queue.JobRef{MessageID: c.MessageID, StoreSeq: c.StoreSeq}
		delete(v.returned, ref)
		switch c.State {
		case protocol.ClaimConfirmed:
			v.proven[c.StoreSeq] = true
			delete(v.owed, ref)
		case protocol.ClaimLost:
			v.lost[c.MessageID]++
			if f := v.w.ledger.bySeq[c.StoreSeq]; f != nil {
				f.lost++
			}
			delete(v.guards, c.StoreSeq)
		case protocol.ClaimRunning:
		}
	}
}

// adopted checks one job that a binding took over by a claim: it was proven, nobody else has it, and the sequence is the next.
func (v *controllerView) adopted(conn delivery.ConnID, b *bindingView, a protocol.Adopted) {
	ref := queue.JobRef{MessageID: a.MessageID, StoreSeq: a.StoreSeq}
	if d := b.deliveries[a.WorkerSeq]; d != nil {
		if d.ref != ref || d.attempt != a.Attempt && !d.heard { // a try that has ended may be counted by now
			v.w.violate("I-3", "%s adopts %v as %d of %s, which is %v", v.p.name, ref, a.WorkerSeq, b.ref.BindingID, d.ref)
		}
		return
	}
	at := slices.IndexFunc(v.claims[conn], func(c protocol.Claim) bool {
		return c.StoreSeq == a.StoreSeq && c.State != protocol.ClaimLost && c.Attempt >= a.Attempt || c.StoreSeq == a.StoreSeq && c.State == protocol.ClaimConfirmed
	})
	if at < 0 {
		v.w.violate("claim", "%s adopts %v at %s, which never proved that it has it", v.p.name, ref, b.incarnation.PodUID)
		return
	}
	if a.WorkerSeq != b.sent+1 {
		v.w.violate("I-3", "%s adopts %v as %d of %s after %d", v.p.name, ref, a.WorkerSeq, b.ref.BindingID, b.sent)
	}
	v.w.counts.Adopted++
	b.sent = a.WorkerSeq
	b.demand = max(b.demand, b.sent)
	if b.started == b.sent-1 {
		b.started = b.sent
	}
	d := &deliveryView{binding: b, seq: a.WorkerSeq, ref: ref, attempt: a.Attempt, ticket: a.Ticket}
	if v.proven[a.StoreSeq] {
		d.heard, d.outcome = true, protocol.Confirmed
		b.heard++
	}
	b.deliveries[a.WorkerSeq] = d
	v.w.ledger.gave(b.incarnation.PodUID, ref, a.Attempt, a.Ticket)
	v.checkElsewhere(d, protocol.Delivery{Redelivered: true})
	v.latest[ref.MessageID] = d
	delete(v.guards, a.StoreSeq)
	if f := v.w.ledger.bySeq[a.StoreSeq]; v.newest() && (f == nil || f.ref != ref || f.settled) {
		v.w.violate("I-2", "%s adopts %v, which is not stored any more", v.p.name, ref)
	}
}

// leaveRuns keeps with the pod what the process runs, as it kept it beside itself.
func (s *sidecar) leaveRuns() {
	if s.pod.lost == nil {
		s.pod.lost = map[*flow][]protocol.Claim{}
	}
	for _, id := range sortedKeys(s.runs) {
		if r := s.runs[id]; !r.done && !r.canceled {
			s.pod.lost[r.flow] = append(s.pod.lost[r.flow], protocol.Claim{
				StoreSeq: r.delivery.StoreSeq, MessageID: r.delivery.Job.MessageID, Attempt: r.delivery.Attempt, Ticket: r.delivery.Ticket,
				State: protocol.ClaimLost,
			})
		}
	}
}

// forgedClaims are claims of what the intruder was not given: another pod's tickets, its own with something changed, and guesses.
func (i *intruder) forgedClaims(p *producer) []protocol.Claim {
	rng := i.w.rng
	state := func() protocol.ClaimState {
		return pick(rng, protocol.ClaimRunning, protocol.ClaimConfirmed, protocol.ClaimConfirmed, protocol.ClaimLost)
	}
	var claims []protocol.Claim
	for _, id := range sortedKeys(p.view.latest) {
		d := p.view.latest[id]
		if d.binding.incarnation.PodUID != i.pod.uid && !d.ticket.IsZero() {
			claims = append(claims, protocol.Claim{
				StoreSeq: d.ref.StoreSeq, MessageID: id, Attempt: d.attempt, Ticket: d.ticket, State: state(),
			})
		}
	}
	for _, d := range i.held {
		c := protocol.Claim{StoreSeq: d.StoreSeq, MessageID: d.Job.MessageID, Attempt: d.Attempt, Ticket: d.Ticket, State: state()}
		switch rng.IntN(5) {
		case 0:
			c.MessageID += "x"
		case 1:
			c.Attempt++
		case 2:
			c.StoreSeq++
		case 3:
			c.Ticket[rng.IntN(protocol.TicketBytes)] ^= 1 << rng.IntN(8)
		default:
			c.State = protocol.ClaimRunning // true, as far as anybody can tell
		}
		claims = append(claims, c)
	}
	claims = append(claims, protocol.Claim{
		StoreSeq: 1 + int64(rng.IntN(40)), MessageID: "nobody", Attempt: 1, Ticket: protocol.Ticket{1}, State: state(),
	})
	i.w.count(ForgedClaim)
	return claims
}
