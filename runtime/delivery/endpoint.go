package delivery

import (
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// endpoint is one producer stream. Its tokens belong to one session: a reload begins them anew.
type endpoint struct {
	conn       ConnID
	maxCredits int
	notify     bool
	attached   bool

	upTo      uint64 // granted: tokens 1…upTo
	answered  uint64 // how many of them carried a job
	completed uint64 // how many of those the producer has acknowledged
	// tokens has a place for each token from the lowest that is not completed on: nil while it is unanswered, then its handshake, and
	// completedMark where tokens before it are not completed.
	tokens   deque[*handshake]
	order    deque[*handshake] // stored, in order of storage; acknowledged ones leave when they are the oldest
	recent   []completion      // ring of the last completed tokens
	recentAt int

	hungry      bool // queued for credit
	idle        int  // open tokens that do not count, see setIdle
	granted     bool // got credit in this step
	grantTimer  *timer
	grantPause  time.Duration
	storedTimer *timer
}

// handshake is one answered token on its way from Produced to StoredAck.
type handshake struct {
	endpoint *endpoint
	session  string
	token    uint64
	job      protocol.Job // empty once stored
	id       string
	digest   queue.Digest
	stored   bool
	seq      int64
	verdict  protocol.StoreVerdict
	acked    bool
	since    Now // of its Produced
	toldAt   Now
}

// completedMark stands for every completed token above one that is not.
var completedMark = &handshake{}

// completion remembers a finished handshake, to tell a late repeat from a misuse (G-039, G-040).
type completion struct {
	token  uint64
	id     string
	digest queue.Digest
}

const (
	// tokenSpan bounds how far an endpoint may run ahead of a token that it never uses.
	tokenSpan = 1024
	// recentCompletions is how many finished handshakes an endpoint remembers at least.
	recentCompletions = 16
	maxCredits        = 10_000
)

func (c *Controller) attach(ev ProducerAttached) {
	if _, ok := c.endpoints[ev.Conn]; ok {
		c.drop("endpoint-attached-twice")
		return
	}
	e := &endpoint{conn: ev.Conn, maxCredits: min(max(1, ev.MaxCredits), maxCredits), notify: ev.Notify, attached: true}
	e.grantTimer = newTimer(func(now Now) { c.repeatGrant(now, e) })
	e.storedTimer = newTimer(func(now Now) { c.repeatStored(now, e) })
	c.endpoints[ev.Conn] = e
	c.endpointsL = append(c.endpointsL, e)
	c.renew(e)
}

// renew begins the endpoint's tokens for the current session.
func (c *Controller) renew(e *endpoint) {
	c.openGrants -= e.unanswered()
	c.setIdle(e, 0)
	e.upTo, e.answered, e.completed = 0, 0, 0
	e.tokens.reset(1)
	e.order.reset(0)
	e.recent, e.recentAt = nil, 0
	c.timers.stop(e.grantTimer)
	c.timers.stop(e.storedTimer)
	c.starve(e)
}

func (c *Controller) detach(conn ConnID) {
	e, ok := c.endpoints[conn]
	if !ok {
		return
	}
	e.attached = false
	c.openGrants -= e.unanswered()
	c.setIdle(e, 0)
	c.timers.stop(e.grantTimer)
	c.timers.stop(e.storedTimer)
	delete(c.endpoints, conn)
	c.endpointsL = slices.DeleteFunc(c.endpointsL, func(x *endpoint) bool { return x == e })
}

// endpoint returns the one that a message is of. Where it has ended, the message counts as dropped.
func (c *Controller) endpoint(conn ConnID) *endpoint {
	e := c.endpoints[conn]
	if e == nil {
		c.drop("unknown-endpoint")
	}
	return e
}

func (e *endpoint) unanswered() int { return int(e.upTo - e.answered) }

func (c *Controller) producerMessage(now Now, ev ProducerMessage) {
	e := c.endpoint(ev.Conn)
	if e == nil {
		return
	}
	switch m := ev.Message.(type) {
	case protocol.Produced:
		c.produced(now, e, m, ev.Digest)
	case protocol.StoredAck:
		c.storedAck(e, m)
	default:
		c.drop("unknown-message")
	}
}

func (c *Controller) produced(now Now, e *endpoint, m protocol.Produced, digest queue.Digest) {
	if c.phase != PhaseRunning {
		c.refuse(e, m, protocol.RefusedUnavailable, "the queue is being loaded", c.cfg.RetryInterval)
		return
	}
	if m.Session != c.session {
		c.refuse(e, m, protocol.RefusedStaleSession, "the token belongs to an earlier session", 0)
		return
	}
	if h := e.openAt(m.Token); h != nil {
		c.producedAgain(now, e, h, m, digest)
		return
	}
	if e.isCompleted(m.Token) {
		if e.completedOther(m, digest) {
			c.refuse(e, m, protocol.RefusedTokenReused, "the token was used for another job", 0)
		} else {
			c.drop("late-produced")
		}
		return
	}
	if code, reason, wait := c.admit(e, m); code != "" {
		c.refuse(e, m, code, reason, wait)
		return
	}
	h := c.newHandshake()
	*h = handshake{endpoint: e, session: c.session, token: m.Token, job: m.Job, id: m.Job.MessageID, digest: digest, since: now}
	e.set(m.Token, h)
	c.setIdle(e, 0)
	e.answered++
	c.openGrants--
	c.storing++
	c.lane.stores.push(h)
	c.starve(e)
	if e.unanswered() == 0 {
		c.timers.stop(e.grantTimer)
	} else {
		e.grantPause = c.cfg.RetryInterval
		c.timers.set(e.grantTimer, now+e.grantPause)
	}
}

// admit decides whether a fresh token's job may be stored; an empty code means yes. A refused token stays open.
func (c *Controller) admit(e *endpoint, m protocol.Produced) (code protocol.RefusalCode, reason string, wait time.Duration) {
	if c.sequencesLeft() <= 0 {
		return protocol.RefusedSequenceSpent, "the store sequence of this flow is used up", 0
	}
	if m.Token == 0 || m.Token > e.upTo {
		return protocol.RefusedNoCredit, "the token was not granted", c.cfg.RetryInterval
	}
	if !c.intake {
		return protocol.RefusedSuspended, "the flow takes no new jobs", maxBackoff
	}
	if err := m.Job.Validate(c.cfg.MaxPayloadBytes); err != nil {
		return protocol.RefusedInvalid, err.Error(), 0
	}
	return "", "", 0
}

// sequencesLeft is how many new jobs the store sequence has room for, those on their way counted (G-045).
func (c *Controller) sequencesLeft() int64 {
	return protocol.MaxSequence - c.cursor - int64(c.storing)
}

// producedAgain handles a repeat within an open handshake: the first bytes stand (G-032, G-034).
func (c *Controller) producedAgain(now Now, e *endpoint, h *handshake, m protocol.Produced, digest queue.Digest) {
	switch {
	case h.id != m.Job.MessageID || h.digest != digest:
		c.refuse(e, m, protocol.RefusedTokenReused, "the token was used for another job", 0)
	case h.stored:
		c.tellStored(now, e, h)
	default:
		c.drop("repeated-produced")
	}
}

func (c *Controller) refuse(e *endpoint, m protocol.Produced, code protocol.RefusalCode, reason string, wait time.Duration) {
	c.drop(string(code))
	c.toProducer(e.conn, protocol.Refused{
		Session: m.Session, Token: m.Token, MessageID: m.Job.MessageID, Code: code, Reason: reason, RetryAfter: wait,
	})
}

// finishStore hands the outcome of a Store to its endpoint, if that is still there.
func (c *Controller) finishStore(now Now, h *handshake, result queue.StoreResult) {
	c.storing--
	h.job = protocol.Job{}
	e := h.endpoint
	if !e.attached || h.session != c.session {
		return
	}
	h.stored, h.seq, h.verdict = true, result.StoreSeq, result.Verdict
	e.order.push(h)
	c.tellStored(now, e, h)
	if !e.storedTimer.armed() {
		c.timers.set(e.storedTimer, now+c.cfg.RetryInterval)
	}
}

func (c *Controller) tellStored(now Now, e *endpoint, h *handshake) {
	h.toldAt = now
	c.todo.stored(StoredTo{e.conn, protocol.Stored{
		Session: h.session, Token: h.token, MessageID: h.id, StoreSeq: h.seq, Verdict: h.verdict,
	}})
}

// repeatStored repeats every unacknowledged Stored that is older than the retry interval (G-035).
func (c *Controller) repeatStored(now Now, e *endpoint) {
	next := now + c.cfg.RetryInterval
	for n := e.order.first; n < e.order.end(); n++ {
		h := e.order.at(n)
		if h.acked {
			continue
		}
		if now-h.toldAt >= c.cfg.RetryInterval {
			c.tellStored(now, e, h)
		}
		next = min(next, h.toldAt+c.cfg.RetryInterval)
	}
	if e.order.len() > 0 {
		c.timers.set(e.storedTimer, next)
	}
}

func (c *Controller) storedAck(e *endpoint, m protocol.StoredAck) {
	if m.Session != c.session || c.phase != PhaseRunning {
		c.drop(string(protocol.RefusedStaleSession))
		return
	}
	h := e.openAt(m.Token)
	if h == nil || !h.stored || h.id != m.MessageID {
		c.drop("unexpected-stored-ack")
		return
	}
	h.acked = true
	e.complete(completion{m.Token, h.id, h.digest})
	if h.verdict != protocol.BodyMismatch { // that sequence belongs to another job
		c.lane.accepts.push(queue.JobRef{MessageID: h.id, StoreSeq: h.seq})
	}
	for e.order.len() > 0 && e.order.at(e.order.first).acked {
		c.spare.put(e.order.pop())
	}
	if e.order.len() == 0 {
		c.timers.stop(e.storedTimer)
	}
	c.starve(e)
}

func (e *endpoint) complete(done completion) {
	e.completed++
	e.set(done.token, completedMark)
	for e.tokens.len() > 0 && e.tokens.at(e.tokens.first) == completedMark {
		e.tokens.pop()
	}
	if size := max(recentCompletions, 2*e.maxCredits); len(e.recent) < size {
		e.recent = append(e.recent, done)
		return
	}
	e.recent[e.recentAt] = done
	e.recentAt = (e.recentAt + 1) % len(e.recent)
}

// low is the token that every one up to is completed.
func (e *endpoint) low() uint64 { return uint64(e.tokens.first - 1) }

// at is what became of a token, nil for none that was answered and is above low.
func (e *endpoint) at(token uint64) *handshake {
	if token > e.upTo || !e.tokens.has(int64(token)) {
		return nil
	}
	return e.tokens.at(int64(token))
}

// openAt is the handshake of a token that is answered and not completed, or nil.
func (e *endpoint) openAt(token uint64) *handshake {
	if h := e.at(token); h != completedMark {
		return h
	}
	return nil
}

// set notes what became of a token, which is above low and was granted.
func (e *endpoint) set(token uint64, h *handshake) {
	for e.tokens.end() <= int64(token) {
		e.tokens.push(nil)
	}
	e.tokens.set(int64(token), h)
}

func (e *endpoint) isCompleted(token uint64) bool {
	return token != 0 && token <= e.low() || e.at(token) == completedMark
}

// completedOther reports whether a completed token is known to have carried another job.
func (e *endpoint) completedOther(m protocol.Produced, digest queue.Digest) bool {
	for _, r := range e.recent {
		if r.token == m.Token {
			return r.id != m.Job.MessageID || r.digest != digest
		}
	}
	return false
}

// spareHandshakes are finished ones, to be used again. What remembers them has let them go: the lane when they were stored, their token when
// it was completed, and the order of storage last.
type spareHandshakes []*handshake

// mostSpare bounds them.
const mostSpare = 4096

func (s *spareHandshakes) put(h *handshake) {
	if len(*s) < mostSpare {
		*h = handshake{}
		*s = append(*s, h)
	}
}

func (c *Controller) newHandshake() *handshake {
	n := len(c.spare)
	if n == 0 {
		return new(handshake)
	}
	h := c.spare[n-1]
	c.spare[n-1] = nil
	c.spare = c.spare[:n-1]
	return h
}
