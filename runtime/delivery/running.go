package delivery

import (
	"hash/crc32"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// running is the set of handlers in progress, of all flows together. It outlives bindings and sessions.
type running struct {
	byID  map[string]*run
	byRun map[RunID]*run
	last  RunID
	spare []*run // that have ended, to be used again
	// orphans is how many of them are of an earlier process.
	orphans int
	// idleSince is when the last handler ended.
	idleSince Now
}

// run is one invocation of the handler.
type run struct {
	id        RunID
	consumer  *Consumer
	producer  *producer // that the job is of
	messageID string
	identity  identity
	held      held   // of the latest delivery of the job
	entry     *entry // the delivery that its outcome settles; nil when that is gone
	abandoned bool
	orphan    bool
	limit     time.Duration // of its start, whatever it is changed to meanwhile
	timeout   *timer
}

// identity tells two jobs apart that bear the same MessageID: one that was submitted anew after its id was forgotten, or to a
// volatile queue that lost the first. What a handler said of one says nothing of the other.
type identity struct {
	storeSeq int64
	size     int
	checksum uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func identityOf(d *protocol.Delivery) identity {
	return identity{d.StoreSeq, len(d.Job.Payload), crc32.Checksum(d.Job.Payload, castagnoli)}
}

func (r *running) init() {
	r.byID = map[string]*run{}
	r.byRun = map[RunID]*run{}
}

// len counts the taken slots.
func (r *running) len() int { return len(r.byRun) }

// own counts the handlers that this process has begun.
func (r *running) own() int { return len(r.byRun) - r.orphans }

// startReport is how long a start may wait for a message to carry the news.
const startReport = 50 * time.Millisecond

// startNext starts the handler of the next delivery in worker-sequence order, if there is one and a slot for it. An abandoned
// handler keeps its slot. Between a registration and its answer nothing starts: the controller takes what was not claimed
// there for not started.
func (c *Consumer) startNext(now Now) bool {
	s := &c.sub
	for {
		e := s.at(s.next)
		if e == nil {
			return false
		}
		started := false
		if e.state == bufferedEntry {
			if c.running.len() >= c.cfg.Concurrency || !c.accepting() || c.inDoubt(now) || c.registration.unanswered {
				return false
			}
			if started = !c.answerKnown(now, e); started {
				c.start(now, e)
			}
		}
		s.next++
		if started {
			return true
		}
	}
}

func (c *Consumer) start(now Now, e *entry) {
	r := c.running.take()
	r.consumer, r.producer, r.messageID, r.identity = c, c.producer, e.delivery.Job.MessageID, identityOf(&e.delivery)
	c.running.byID[r.messageID] = r
	c.running.byRun[r.id] = r
	c.runs++
	d := e.delivery
	c.attach(e, r)
	c.sub.started = max(c.sub.started, d.WorkerSeq)
	c.counts.started++
	if c.cfg.HandlerTimeout > 0 {
		r.limit = c.cfg.HandlerTimeout
		c.timers.set(r.timeout, now+r.limit)
	}
	if !c.startedTimer.armed() {
		c.timers.set(c.startedTimer, now+startReport)
	}
	c.group.todo.start(StartHandler{Run: r.id, Flow: c.flow, Delivery: d})
}

// take begins a run, in the memory of one that has ended if there is any.
func (r *running) take() *run {
	r.last++
	if n := len(r.spare); n > 0 {
		again := r.spare[n-1]
		r.spare = r.spare[:n-1]
		again.id = r.last
		return again
	}
	fresh := &run{id: r.last}
	fresh.timeout = newTimer(func(now Now) { fresh.consumer.abandon(now, fresh) })
	return fresh
}

// give takes a run back that has ended and that no delivery refers to.
func (r *running) give(ended *run) {
	*ended = run{timeout: ended.timeout}
	r.spare = append(r.spare, ended)
}

// attach makes the outcome of a run settle a delivery.
func (c *Consumer) attach(e *entry, r *run) {
	if e.state == bufferedEntry {
		c.sub.buffered--
	}
	e.state, e.run, e.identity, r.entry = runningEntry, r, r.identity, e
	r.held = heldOf(&e.delivery)
	// The handler has the payload; the entry needs only what names it.
	e.delivery.Job.Headers, e.delivery.Job.Payload = nil, nil
}

// abandon gives an attempt up that runs past its timeout. Its slot stays taken until the handler answers.
func (c *Consumer) abandon(now Now, r *run) {
	if r.abandoned {
		return
	}
	r.abandoned = true
	c.emit(CancelHandler{r.id})
	if e := r.entry; e != nil {
		r.entry = nil
		c.detached++
		c.settle(now, e, protocol.Abandoned, "the handler ran past its timeout of "+r.limit.String(), 0)
	}
}

func (c *Consumer) handlerDone(now Now, r *run, ev HandlerDone) {
	c.finish(now, r)
	defer c.running.give(r)
	if r.abandoned {
		c.drop("late-answer")
		return
	}
	outcome := ev.Outcome
	if outcome < protocol.Confirmed || outcome > protocol.Delayed {
		outcome = protocol.Nacked
	}
	if e := r.entry; e != nil {
		c.settle(now, e, outcome, ev.Reason, clampRetryAfter(ev.RetryAfter))
		return
	}
	c.detached--
	if outcome != protocol.Confirmed {
		c.keepWord(r.messageID, lastWord{r.identity.storeSeq, outcome, ev.Reason, clampRetryAfter(ev.RetryAfter)})
	} else {
		p := r.producer
		if !p.tracked { // it was forgotten meanwhile, and has this to be remembered for
			p = c.group.enter(now, c, p.key.queue)
			defer c.group.evict(now)
		}
		c.remember(p, r.messageID, rememberedJob{identity: r.identity, held: r.held, reason: ev.Reason})
		c.registration.unclaimed = true
		c.claimSoon(now)
	}
}

func clampRetryAfter(wait time.Duration) time.Duration {
	return max(0, min(wait, protocol.MaxRetryAfter))
}

func (c *Consumer) finish(now Now, r *run) {
	c.group.release(r)
	c.runs--
	if r.abandoned {
		c.detached--
	}
	if c.running.own() == 0 {
		c.running.idleSince = now
	}
}

// release frees the slot and the MessageID of a handler, and nothing times it any more.
func (g *ConsumerGroup) release(r *run) {
	delete(g.running.byRun, r.id)
	delete(g.running.byID, r.messageID)
	if r.timeout != nil {
		g.timers.stop(r.timeout)
	}
}
