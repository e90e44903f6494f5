package simulation

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// submission is one entry of a submitter's source. Its mark survives the submitter's crash, its token does not.
type submission struct {
	job    protocol.Job
	digest queue.Digest
	due    time.Duration
	poison bool // kills the worker that runs it, while the storm lasts
	wrong  bool // breaks a limit: nothing but a refusal is right

	answered bool // marked: the submitter was told what became of it, and remembers
	verdict  protocol.StoreVerdict
	token    uint64 // in the present session, 0 if none
	sentAt   time.Duration
	retryAt  time.Duration
}

// submitter is a producer endpoint with a source of jobs.
type submitter struct {
	w      *flow
	name   string
	source []*submission
	window int
	notify bool
	gone   bool // crashed, will be back
	link   *attachment
	boots  int

	session string
	upTo    uint64
	next    uint64
	tokens  map[uint64]*submission
	free    []uint64 // tokens given back
	rogue   bool     // has misused this session's tokens
}

// attachment is the link of a submitter to one producer.
type attachment struct {
	w         *flow
	submitter *submitter
	producer  *producer
	conn      delivery.ConnID
	up, down  direction // ordered: a session's id does not say whether it is newer than another
}

func (w *flow) addSubmitters() {
	n := between(w.rng, w.profile.Submitters)
	jobs := between(w.rng, w.profile.Jobs)
	for i := range n {
		s := &submitter{w: w, name: w.name("submitter"), window: w.tunables.credits, notify: w.rng.IntN(2) == 0}
		w.submitters = append(w.submitters, s)
		for j := i; j < jobs; j += n {
			s.source = append(s.source, w.newSubmission(j))
		}
		slices.SortStableFunc(s.source, func(a, b *submission) int { return int(a.due - b.due) })
		s.reset()
		s.attach(w.upTo(200 * time.Millisecond))
	}
}

func (w *flow) newSubmission(number int) *submission {
	sub := &submission{
		job:    protocol.Job{MessageID: "job" + strconv.Itoa(number), Payload: w.payload(1 + w.rng.IntN(maxPayload))},
		poison: w.chance(w.profile.Poison),
	}
	if w.chance(0.5) {
		sub.job.Headers = map[string]string{"content-type": "text/plain", "n": strconv.Itoa(number)}
	}
	switch {
	case w.chance(0.6): // most arrive in bursts
		sub.due = time.Duration(w.rng.IntN(4)) * w.profile.Storm / 8
	default:
		sub.due = w.upTo(w.profile.Storm)
	}
	if w.chance(w.profile.Odd) {
		w.spoil(sub)
	}
	sub.digest = digestOf(sub.job)
	w.ledger.expect(sub)
	return sub
}

// spoil makes a submission invalid, or a repeat of an earlier one with the same or with another body.
func (w *flow) spoil(sub *submission) {
	switch w.rng.IntN(5) {
	case 0:
		sub.wrong, sub.job.Payload = true, w.payload(maxPayload+1)
	case 1:
		sub.wrong, sub.job.MessageID = true, strings.Repeat("x", protocol.MaxIDBytes+1+w.rng.IntN(3))
	case 2:
		sub.wrong, sub.job.Payload = true, nil
	default:
		from := w.submitters[w.rng.IntN(len(w.submitters))]
		if len(from.source) == 0 {
			return
		}
		twin := from.source[w.rng.IntN(len(from.source))]
		if twin.wrong {
			return
		}
		sub.job.MessageID, sub.poison = twin.job.MessageID, twin.poison
		if w.chance(0.5) {
			sub.job = twin.job
		}
	}
}

func (w *world) payload(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + w.rng.IntN(26))
	}
	return b
}

func digestOf(j protocol.Job) queue.Digest {
	h := sha256.New()
	for _, k := range sortedKeys(j.Headers) {
		fmt.Fprintf(h, "%q=%q;", k, j.Headers[k])
	}
	h.Write(j.Payload)
	return queue.Digest(h.Sum(nil))
}

// reset forgets what a process forgets.
func (s *submitter) reset() {
	s.session, s.upTo, s.next, s.rogue = "", 0, 1, false
	s.tokens, s.free = map[uint64]*submission{}, nil
	for _, sub := range s.source {
		sub.token = 0
	}
}

func (s *submitter) attach(after time.Duration) {
	boot := s.boots
	s.w.plan(after, func() {
		if s.gone || s.boots != boot || s.link != nil {
			return
		}
		p := s.w.route()
		if !p.serves() {
			s.attach(200*time.Millisecond + s.w.upTo(time.Second))
			return
		}
		a := &attachment{w: s.w, submitter: s, producer: p, conn: p.nextConn(), up: direction{ordered: true}, down: direction{ordered: true}}
		p.attachments[a.conn] = a
		s.link = a
		s.reset()
		p.take(delivery.ProducerAttached{Conn: a.conn, MaxCredits: s.window, Notify: s.notify})
		s.poll(a)
	})
}

// poll resends and pumps as long as the attachment lives.
func (s *submitter) poll(a *attachment) {
	const pace = 300 * time.Millisecond
	var next func()
	next = func() {
		if s.link == a {
			s.pump()
			s.w.plan(pace, next)
		}
	}
	s.w.plan(pace, next)
}

// pump uses free tokens for due submissions and repeats what got no answer.
func (s *submitter) pump() {
	for _, sub := range s.source {
		switch {
		case sub.answered || sub.retryAt > s.w.now || sub.due > s.w.now && !s.w.healing:
		case sub.token != 0:
			if s.w.now-sub.sentAt >= 900*time.Millisecond {
				s.send(sub)
			}
		case s.session != "":
			if sub.token = s.nextToken(); sub.token != 0 {
				s.tokens[sub.token] = sub
				s.send(sub)
			}
		}
	}
}

func (s *submitter) nextToken() uint64 {
	if n := len(s.free); n > 0 {
		token := s.free[n-1]
		s.free = s.free[:n-1]
		return token
	}
	if s.next > s.upTo {
		return 0
	}
	s.next++
	return s.next - 1
}

func (s *submitter) send(sub *submission) {
	sub.sentAt = s.w.now
	s.link.toProducer(sub.digest, protocol.Produced{Session: s.session, Token: sub.token, Job: sub.job})
}

// heard is one message of the producer.
func (s *submitter) heard(m protocol.ToProducer) {
	switch v := m.(type) {
	case protocol.RequestNext:
		if v.Session != s.session {
			s.reset()
			s.session = v.Session
		}
		s.upTo = max(s.upTo, v.UpTo)
		s.pump()
	case protocol.Stored:
		s.stored(v)
	case protocol.Refused:
		s.refused(v)
	case protocol.DeliveryConfirmed:
		// A notice is of any submitter's job; the controller's view has checked that it is true.
	}
}

func (s *submitter) stored(v protocol.Stored) {
	if v.Session != s.session {
		return
	}
	sub := s.tokens[v.Token]
	if s.rogue && (sub == nil || sub.job.MessageID != v.MessageID) {
		s.link.toProducer(queue.Digest{}, protocol.StoredAck{Session: s.session, Token: v.Token, MessageID: v.MessageID})
		return
	}
	if sub == nil {
		return
	}
	if sub.job.MessageID != v.MessageID {
		s.w.violate("handshake", "%s: token %d was %s and is Stored as %s", s.name, v.Token, sub.job.MessageID, v.MessageID)
		return
	}
	if sub.wrong {
		s.w.violate("handshake", "%s: the invalid %.20s was stored", s.name, v.MessageID)
	}
	if !sub.answered {
		sub.answered, sub.token, sub.verdict = true, 0, v.Verdict
		s.w.ledger.marked(v)
	}
	s.link.toProducer(queue.Digest{}, protocol.StoredAck{Session: s.session, Token: v.Token, MessageID: v.MessageID})
}

// refused keeps the job at its token, because a repeat of it may still be on its way and be taken; only a job that can never be
// taken gives its token back, and only a token that another job took is lost.
func (s *submitter) refused(v protocol.Refused) {
	if v.Session != s.session {
		return
	}
	if v.Code == protocol.RefusedStaleSession {
		s.reset()
		return
	}
	sub := s.tokens[v.Token]
	if sub == nil || sub.answered || sub.job.MessageID != v.MessageID {
		return
	}
	switch v.Code {
	case protocol.RefusedInvalid:
		if !sub.wrong {
			s.w.violate("handshake", "%s: %s is valid and was refused: %s", s.name, v.MessageID, v.Reason)
		}
		s.w.count(InvalidSubmitted)
		sub.answered, sub.token = true, 0
		delete(s.tokens, v.Token)
		s.free = append(s.free, v.Token)
	case protocol.RefusedTokenReused:
		if !s.rogue {
			s.w.violate("handshake", "%s: token %d is fresh and was refused as used", s.name, v.Token)
		}
		sub.token = 0
		delete(s.tokens, v.Token)
	case protocol.RefusedQueueFull: // another token, later
		sub.token = 0
		delete(s.tokens, v.Token)
	case protocol.RefusedUndecided: // the next session submits it again
	default:
		sub.retryAt = s.w.now + min(max(v.RetryAfter, 100*time.Millisecond), 2*time.Second)
	}
}

// crash forgets everything but the marks.
func (s *submitter) crash() {
	if s.gone {
		return
	}
	s.w.count(SubmitterCrashed)
	s.w.note(s.name, "crashes")
	s.boots++
	s.gone = true
	if s.link != nil {
		s.link.endAtProducer(s.w.upTo(100 * time.Millisecond))
		s.link = nil
	}
	s.w.plan(s.w.someTime(time.Second), func() {
		s.gone = false
		s.reset()
		s.attach(0)
	})
}

// misuse breaks the handshake on purpose, without harm to its own source.
func (s *submitter) misuse() {
	if s.link == nil || s.session == "" {
		return
	}
	s.w.count(SubmitterMisused)
	s.rogue = true
	rng := s.w.rng
	job := protocol.Job{MessageID: "rogue" + strconv.Itoa(rng.IntN(5)), Payload: s.w.payload(3)}
	switch rng.IntN(6) {
	case 0: // far above the grant
		s.link.toProducer(digestOf(job), protocol.Produced{Session: s.session, Token: s.upTo + 1000 + rng.Uint64N(1<<40), Job: job})
	case 1: // token zero
		s.link.toProducer(digestOf(job), protocol.Produced{Session: s.session, Job: job})
	case 2: // another session
		s.link.toProducer(digestOf(job), protocol.Produced{Session: "no such session", Token: 1, Job: job})
	case 3: // a used token for another job
		if s.next > 1 {
			s.link.toProducer(digestOf(job), protocol.Produced{Session: s.session, Token: 1 + rng.Uint64N(s.next-1), Job: job})
		}
	case 4: // acknowledges what it was never told
		s.link.toProducer(queue.Digest{}, protocol.StoredAck{Session: s.session, Token: rng.Uint64N(s.next + 3), MessageID: job.MessageID})
	case 5: // an empty message
		s.link.toProducer(queue.Digest{}, protocol.Produced{})
	}
}

// resubmit offers a settled submission once more, as an at-least-once source does.
func (s *submitter) resubmit() {
	for range 4 {
		sub := s.source[s.w.rng.IntN(len(s.source))]
		if sub.answered && !sub.wrong {
			s.w.count(Resubmitted)
			sub.answered = false
			return
		}
	}
}

func (w *flow) healSubmitters() {
	for _, s := range w.submitters {
		if s.link == nil && !s.gone {
			s.attach(0)
		}
	}
}

func (s *submitter) unfinished() string {
	for _, sub := range s.source {
		if !sub.answered {
			return fmt.Sprintf("%.20s has no answer (session %q, token %d of %d)", sub.job.MessageID, s.session, sub.token, s.upTo)
		}
	}
	return ""
}

func (a *attachment) toProducer(digest queue.Digest, m protocol.FromProducer) {
	a.w.transmit(&a.up, false, func() {
		if a.producer.awake() {
			a.hear(digest, m)
			return
		}
		a.producer.receive(func() { a.hear(digest, m) })
	})
}

// hear is a message's arrival at the producer.
func (a *attachment) hear(digest queue.Digest, m protocol.FromProducer) {
	if a.producer.attachments[a.conn] == a {
		a.producer.take(delivery.ProducerMessage{Conn: a.conn, Digest: digest, Message: m})
	}
}

func (a *attachment) toSubmitter(m protocol.ToProducer) {
	a.w.transmit(&a.down, false, func() {
		if a.submitter.link == a {
			a.submitter.heard(m)
		}
	})
}

func (a *attachment) endAtProducer(after time.Duration) {
	a.w.plan(after, func() {
		a.producer.receive(func() {
			if a.producer.attachments[a.conn] == a {
				delete(a.producer.attachments, a.conn)
				a.producer.take(delivery.ProducerDetached{Conn: a.conn})
			}
		})
	})
}

func (a *attachment) endAtSubmitter(after time.Duration) {
	a.w.plan(after, func() {
		if a.submitter.link == a {
			a.submitter.link = nil
			a.submitter.attach(a.w.upTo(500 * time.Millisecond))
		}
	})
}

// cut ends the attachment for both sides.
func (a *attachment) cut() {
	a.endAtProducer(a.w.upTo(100 * time.Millisecond))
	a.endAtSubmitter(a.w.upTo(100 * time.Millisecond))
}
