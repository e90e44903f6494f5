package endpoint

import (
	"cmp"
	"slices"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// deskHost is where a desk stands: beside the Controller, in a Producer, or at the other end of a stream, in a Client. Its methods
// belong to the loop, but for post.
type deskHost interface {
	// produce and acknowledge take the desk's messages to the Controller.
	produce(message protocol.Produced, digest queue.Digest)
	acknowledge(message protocol.StoredAck)
	// refusing is why nothing is taken now, or nil.
	refusing() error
	// whyWaiting is the answer to who has waited for credit for too long.
	whyWaiting() error
	// creditWait is how long that is, and answerWait how long anybody waits for an answer of the queue.
	creditWait() delivery.Now
	answerWait() delivery.Now
	now() delivery.Now
	post(f func()) bool
}

// desk is a producer endpoint: it holds submissions, gives each a granted token, and keeps it until its caller has acknowledged the
// answer. It belongs to the loop.
type desk struct {
	host    deskHost
	session string
	used    uint64 // the highest token used in this session
	upTo    uint64
	free    []uint64      // granted tokens whose job was refused: they stay open
	waiting []*submission // without a token, oldest first
	gone    int           // how many of them are withdrawn
	open    map[uint64]*submission
	asked   []*submission // all without an answer, oldest first, and some with one
}

// submission is one job between its caller and the controller.
type submission struct {
	entry    Submission
	token    uint64
	answered bool // the caller has its answer
	// acknowledged: the caller said that its answer was delivered, or went away.
	acknowledged bool
	withdrawn    bool         // given up while waiting
	expires      delivery.Now // when it has waited for credit for too long
	overdue      delivery.Now // when it has waited for its answer for too long
	storedIn     string       // the session that has told it stored; empty before
	receipt      Receipt      // the caller's, with the answer: nothing here touches it afterwards
}

func newDesk(host deskHost) *desk {
	return &desk{host: host, open: map[uint64]*submission{}}
}

// submit queues submissions and uses what is granted.
func (d *desk) submit(submissions []*submission) {
	if err := d.host.refusing(); err != nil {
		refuse(submissions, err)
		return
	}
	expires := d.host.now() + d.host.creditWait()
	overdue := expires + d.host.answerWait()
	for _, s := range submissions {
		s.expires, s.overdue = expires, overdue
	}
	d.waiting = append(d.waiting, submissions...)
	d.asked = append(d.asked, submissions...)
	d.advance()
}

func refuse(submissions []*submission, err error) {
	for _, s := range submissions {
		s.reply(Answer{Err: err})
	}
}

// undecided answers a submission whose outcome is not known for now. It goes on by itself, so that the queue is told in the end that nobody
// waits any more.
func (s *submission) undecided() {
	s.reply(Answer{Err: ErrUnavailable})
	s.acknowledged = true
}

func (s *submission) reply(a Answer) {
	if !s.answered {
		s.answered = true
		s.acknowledged = s.entry.Reply.Answered(a) || s.acknowledged
	}
}

// impatient is when the first of those who wait has waited for too long.
func (d *desk) impatient() (at delivery.Now, waits bool) {
	d.forgetAnswered()
	if len(d.asked) > 0 {
		at, waits = d.asked[0].overdue, true
	}
	for _, s := range d.waiting {
		if s.token == 0 && !s.withdrawn {
			return min(s.expires, at), true // it is among the asked
		}
	}
	return at, waits
}

// forgetAnswered takes those who have their answer off the head of the line.
func (d *desk) forgetAnswered() {
	for len(d.asked) > 0 && d.asked[0].answered {
		d.asked[0] = nil
		d.asked = d.asked[1:]
	}
}

// expire answers those who have waited for too long. Who was submitted before, in an earlier session, waits on for its answer, but not
// without end.
func (d *desk) expire() {
	now := d.host.now()
	for d.forgetAnswered(); len(d.asked) > 0 && d.asked[0].overdue <= now; d.forgetAnswered() {
		d.asked[0].undecided()
	}
	for _, s := range d.waiting {
		if s.token != 0 || s.withdrawn {
			continue
		}
		if s.expires > now {
			return
		}
		d.giveUp(s)
	}
	d.tidy()
}

// advance gives tokens to those who wait.
func (d *desk) advance() {
	for len(d.waiting) > 0 {
		s := d.waiting[0]
		if s.withdrawn {
			d.waiting = d.waiting[1:]
			d.gone--
			continue
		}
		token, ok := d.token()
		if !ok {
			return
		}
		d.waiting[0] = nil
		d.waiting = d.waiting[1:]
		s.token = token
		d.open[token] = s
		d.host.produce(protocol.Produced{Session: d.session, Token: s.token, Job: s.entry.Job}, s.entry.Digest)
	}
}

// token takes a granted token that is not in use.
func (d *desk) token() (uint64, bool) {
	if n := len(d.free); n > 0 {
		token := d.free[n-1]
		d.free = d.free[:n-1]
		return token, true
	}
	if d.used >= d.upTo {
		return 0, false
	}
	d.used++
	return d.used, true
}

// receive takes one message of the controller.
func (d *desk) receive(message protocol.ToProducer) {
	switch m := message.(type) {
	case protocol.RequestNext:
		if m.Session != d.session {
			d.renew(m.Session)
		}
		d.upTo = max(d.upTo, m.UpTo)
		d.advance()
	case protocol.Stored:
		d.told(&m)
	case protocol.Refused:
		if m.Session == d.session {
			d.refused(m)
		}
	}
}

// renew starts a new session: what was not acknowledged in the old one is submitted again, oldest first. The first write of
// a MessageID stands, so that this stores nothing twice.
func (d *desk) renew(session string) {
	again := make([]*submission, 0, len(d.open)+len(d.waiting))
	for _, s := range d.open {
		again = append(again, s)
	}
	slices.SortFunc(again, func(a, b *submission) int { return cmp.Compare(a.token, b.token) })
	clear(d.open)
	d.waiting = append(again, d.waiting...)
	d.session, d.used, d.upTo, d.free = session, 0, 0, nil
}

// told takes a Stored.
func (d *desk) told(m *protocol.Stored) {
	if m.Session != d.session {
		return
	}
	s, ok := d.open[m.Token]
	if !ok {
		// Acknowledged before, and the acknowledgement crossed this repeat.
		d.host.acknowledge(protocol.StoredAck{Session: m.Session, Token: m.Token, MessageID: m.MessageID})
		return
	}
	s.storedIn = m.Session
	if !s.answered {
		s.receipt = Receipt{Stored: *m, desk: d, submission: s}
		s.reply(Answer{Receipt: &s.receipt})
	}
	if s.acknowledged {
		d.finish(s)
	}
}

// acknowledge is the caller's word that its answer was delivered.
func (d *desk) acknowledge(s *submission) {
	s.acknowledged = true
	if d.open[s.token] == s && s.storedIn == d.session {
		d.finish(s)
	}
}

func (d *desk) finish(s *submission) {
	delete(d.open, s.token)
	d.host.acknowledge(protocol.StoredAck{Session: d.session, Token: s.token, MessageID: s.entry.Job.MessageID})
}

func (d *desk) refused(m protocol.Refused) {
	s, ok := d.open[m.Token]
	if !ok {
		return
	}
	if m.Code == protocol.RefusedUndecided { // its session is over, and the next one submits it again
		s.undecided()
		return
	}
	delete(d.open, m.Token)
	switch m.Code {
	case protocol.RefusedQueueFull:
		s.reply(Answer{Err: &QueueFullError{Reason: m.Reason, RetryAfter: m.RetryAfter}})
		d.advance() // its token is used up
		return
	case protocol.RefusedNoCredit, protocol.RefusedStaleSession, protocol.RefusedTokenReused:
		// Not this job's fault: it waits for another token. A stale session renews all tokens.
		d.waiting = append([]*submission{s}, d.waiting...)
		return
	case protocol.RefusedSuspended:
		s.reply(Answer{Err: ErrSuspended})
	case protocol.RefusedUnavailable:
		s.reply(Answer{Err: ErrUnavailable})
	default:
		s.reply(Answer{Err: &RefusedError{Code: m.Code, Reason: m.Reason}})
	}
	d.free = append(d.free, m.Token)
	d.advance()
}

// withdraw takes back a submission that is still without a token. It stays in line, without its payload, until credit comes by or most of
// the line is like it: credit may be long in coming.
func (d *desk) withdraw(s *submission) {
	if s.answered || s.token != 0 {
		return
	}
	d.giveUp(s)
	d.tidy()
}

func (d *desk) giveUp(s *submission) {
	s.withdrawn = true
	s.entry = Submission{Reply: s.entry.Reply}
	d.gone++
	s.reply(Answer{Err: d.host.whyWaiting()})
}

func (d *desk) tidy() {
	if 2*d.gone > len(d.waiting) {
		d.waiting = slices.DeleteFunc(d.waiting, func(s *submission) bool { return s.withdrawn })
		d.gone = 0
	}
}

// refuseWaiting answers everyone who has no token yet.
func (d *desk) refuseWaiting(err error) {
	kept := d.waiting[:0]
	for _, s := range d.waiting {
		if s.token != 0 {
			kept = append(kept, s) // submitted before, in an earlier session: its outcome is not known
			continue
		}
		s.reply(Answer{Err: err})
	}
	clear(d.waiting[len(kept):])
	d.waiting, d.gone = kept, 0
}

// refuseAll answers everyone and forgets them.
func (d *desk) refuseAll(err error) {
	refuse(d.waiting, err)
	for _, s := range d.open {
		s.reply(Answer{Err: err})
	}
	clear(d.open)
	d.waiting, d.gone, d.asked = nil, 0, nil
	d.session, d.used, d.upTo, d.free = "", 0, 0, nil
}

// idle reports whether nothing is under way at all.
func (d *desk) idle() bool { return len(d.open)+len(d.waiting) == 0 }

// quiet reports whether nobody waits for an answer.
func (d *desk) quiet() bool { return len(d.open) == 0 }
