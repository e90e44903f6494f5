package delivery

import (
	"github.com/workpulling/workpulling/runtime/protocol"
)

// subflow is the Consumer's view of its binding: an entry for each worker sequence above the watermark of what the controller
// has taken over.
type subflow struct {
	entries  deque[*entry] // nil where nothing arrived yet
	above    int           // taken over, above the watermark
	held     int           // arrived and not taken over
	buffered int
	expected int64 // everything below it arrived
	next     int64 // everything below it was started or settled
	started  int64 // the highest sequence whose handler was started
	demand   int64 // RequestUpTo
}

type entryState uint8

const (
	bufferedEntry entryState = iota + 1
	runningEntry
	settledEntry // and not taken over
	takenEntry
)

// entry is one delivery from its arrival until the controller has taken its settlement over.
type entry struct {
	state      entryState
	delivery   protocol.Delivery // until it is settled
	identity   identity          // while running and once confirmed
	held       held              // once settled
	run        *run              // while running
	settlement protocol.Settlement
	sentAt     Now
	sent       bool
}

// entriesTogether is how many entries of one frame share their memory at most: one that stays long keeps the others' from being freed.
const entriesTogether = 32

// takenMark stands for every sequence that is taken over above the watermark: nothing else of them is kept (I-12).
var takenMark = &entry{state: takenEntry}

func (s *subflow) reset(first int64) {
	*s = subflow{expected: first, next: first, demand: first - 1}
	s.entries.reset(first)
}

func (s *subflow) watermark() int64 { return s.entries.first - 1 }

func (s *subflow) at(seq int64) *entry {
	if !s.entries.has(seq) {
		return nil
	}
	return s.entries.at(seq)
}

func (s *subflow) put(seq int64, e *entry) {
	s.set(seq, e)
	s.held++
	s.buffered++
}

func (s *subflow) set(seq int64, e *entry) {
	for s.entries.end() <= seq {
		s.entries.push(nil)
	}
	s.entries.set(seq, e)
	for s.at(s.expected) != nil {
		s.expected++
	}
}

// gap reports whether something arrived above a sequence that did not.
func (s *subflow) gap() bool { return s.entries.end() > s.expected }

// deliver takes a frame in (G-065), each delivery for itself: admission comes first. What cannot be right is counted and
// changes nothing, but that an envelope which breaks a limit is answered for.
func (c *Consumer) deliver(now Now, m protocol.SequencedMessage) {
	turnedAway := false
	var room []entry
	for i := range m.Deliveries {
		d := &m.Deliveries[i]
		if err := d.Validate(); err != nil {
			c.refuse(now, d.WorkerSeq, err)
			continue
		}
		if !c.admit(now, d.WorkerSeq) {
			continue
		}
		if len(room) == 0 {
			room = make([]entry, min(len(m.Deliveries)-i, entriesTogether))
		}
		e := &room[0]
		room = room[1:]
		e.state, e.delivery = bufferedEntry, *d
		c.sub.put(d.WorkerSeq, e)
		c.active(now)
		if !c.answerKnown(now, e) && !c.accepting() {
			c.settle(now, e, protocol.HandedBack, "the worker takes no jobs", 0)
			turnedAway = true
		}
	}
	if turnedAway && c.group.cordoned {
		c.send(protocol.Drain{BindingRef: c.registration.ref})
	}
	if c.sub.gap() && (!c.gapAsked || now-c.gapAskedAt >= c.cfg.ResendInterval) {
		c.gapAsked, c.gapAskedAt = true, now
		c.ask(now, true)
	}
}

func (c *Consumer) admit(now Now, seq int64) bool {
	switch {
	case seq > c.sub.demand:
		c.drop("beyond-demand")
	case seq <= c.sub.watermark():
		c.counts.duplicates++
	case c.sub.at(seq) != nil:
		c.counts.duplicates++
		if e := c.sub.at(seq); e.state == settledEntry && e.sent && now > e.sentAt {
			c.outbox.add(now, c, e) // the settlement was lost: repeat the recorded outcome
		}
	case c.full(seq):
		c.drop("buffer-full")
	default:
		return true
	}
	return false
}

// full reports whether there is no room for a sequence. The next to start is taken always: the others wait for it.
func (c *Consumer) full(seq int64) bool {
	return c.sub.held >= c.registration.window && seq != c.sub.next
}

// refuse answers for a delivery that is not admissible, so that those behind it need not wait for it. It is never run and never
// confirmed. One without a place of its own is counted only.
func (c *Consumer) refuse(now Now, seq int64, cause error) {
	c.drop("inadmissible")
	c.emit(DeliveryRefused{Flow: c.flow, WorkerSeq: seq, Cause: cause})
	if seq <= c.sub.watermark() || seq > c.sub.demand || c.sub.at(seq) != nil || c.full(seq) {
		return
	}
	e := &entry{state: bufferedEntry, delivery: protocol.Delivery{WorkerSeq: seq}}
	c.sub.put(seq, e)
	c.settle(now, e, protocol.Inadmissible, "refused by the worker: "+cause.Error(), 0)
}

// answerKnown settles or attaches a delivery of a job that this worker has run or runs: it never starts a second handler for
// one MessageID (I-9).
func (c *Consumer) answerKnown(now Now, e *entry) bool {
	id := e.delivery.Job.MessageID
	if reason, ok := c.recall(&e.delivery); ok {
		e.identity = identityOf(&e.delivery)
		c.settle(now, e, protocol.Confirmed, reason, 0)
		return true
	}
	r := c.running.byID[id]
	switch {
	case r == nil:
		return false
	case r.consumer != c || r.entry != nil || r.abandoned || r.identity != identityOf(&e.delivery):
		c.settle(now, e, protocol.Delayed, "an earlier attempt still runs here", maxBackoff/3)
	default:
		c.detached--
		c.attach(e, r)
	}
	return true
}

// takenOver lets go of settlements that the controller answers for from now on.
func (c *Consumer) takenOver(now Now, m protocol.SettledAck) {
	s := &c.sub
	for seq := s.entries.first; seq <= min(m.UpTo, s.demand); seq++ {
		c.take(now, seq)
	}
	for _, seq := range m.Above {
		c.take(now, seq)
	}
	for s.entries.len() > 0 && s.entries.at(s.entries.first) != nil && s.entries.at(s.entries.first).state == takenEntry {
		s.entries.pop()
		s.above--
	}
	s.expected = max(s.expected, s.entries.first)
	s.next = max(s.next, s.entries.first)
}

// take lets go of one sequence. One that this worker does not have it settled before it lost the binding and found it again: it
// need not wait for that one.
func (c *Consumer) take(now Now, seq int64) {
	s := &c.sub
	if seq < s.entries.first || seq > s.demand {
		return
	}
	e := s.at(seq)
	switch {
	case e == nil:
		s.set(seq, takenMark)
	case e.state == settledEntry:
		s.held--
	case e.state == bufferedEntry:
		s.held--
		s.buffered--
	default:
		return
	}
	if e != nil {
		e.state = takenEntry
		s.entries.set(seq, takenMark)
	}
	s.above++
	c.active(now)
}

// handBackNewest gives unstarted jobs back, newest first, so that the oldest stay where they wait already.
func (c *Consumer) handBackNewest(now Now, count int) {
	for seq := c.sub.entries.end() - 1; seq >= c.sub.next && count > 0; seq-- {
		if e := c.sub.at(seq); e != nil && e.state == bufferedEntry {
			c.settle(now, e, protocol.HandedBack, "not started", 0)
			count--
		}
	}
}

// settle ends a delivery; the record stays until the controller has taken it over.
func (c *Consumer) settle(now Now, e *entry, outcome protocol.Outcome, reason string, retryAfter Now) {
	d := &e.delivery
	if e.state == bufferedEntry {
		c.sub.buffered--
	}
	e.settlement = protocol.Settlement{
		WorkerSeq: d.WorkerSeq, MessageID: d.Job.MessageID, Attempt: d.Attempt, Outcome: outcome,
		Reason: protocol.ClipReason(reason), RetryAfter: retryAfter,
	}
	e.held = heldOf(d)
	e.state, e.run, e.delivery = settledEntry, nil, protocol.Delivery{}
	switch outcome {
	case protocol.Confirmed:
		c.counts.confirmed++
	case protocol.Nacked, protocol.Rejected:
		c.counts.nacked++
	case protocol.HandedBack:
		c.counts.handedBack++
	case protocol.Abandoned:
		c.counts.abandoned++
	case protocol.Delayed, protocol.Inadmissible: // no word of a handler
	}
	c.active(now)
	c.outbox.add(now, c, e)
}
