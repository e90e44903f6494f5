package delivery

import (
	"fmt"
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// load is the state of loading the queue: the first time, and again when the handshake lane has spent its tries.
type load struct {
	op      OpID
	tries   int
	since   Now // of the first failure in a row
	failing bool
	err     error
	retryAt *timer
	alarmAt *timer
	// bound are the pods that had a binding when the load was asked for.
	bound map[string]struct{}
	// unseen are jobs that a handler finished, whose confirm was waiting for its write, and of which a load saw nothing although
	// another writer may have written since.
	unseen []*job
}

// loadAlarm is how long loads may fail before that is called a failure.
const loadAlarm = time.Minute

func (l *load) init(c *Controller) {
	l.retryAt = newTimer(func(Now) { c.askLoad() })
	l.alarmAt = newTimer(func(Now) { l.failing = true })
}

func (c *Controller) start() {
	if c.phase == PhaseLoading && c.load.op == 0 && !c.load.retryAt.armed() {
		c.askLoad()
	}
}

func (c *Controller) askLoad() {
	c.load.op = c.nextOp()
	c.emit(LoadQueue{Op: c.load.op})
}

func (c *Controller) loaded(now Now, ev Loaded) {
	l := &c.load
	if ev.Op == 0 || ev.Op != l.op {
		c.drop("foreign-operation")
		return
	}
	l.op = 0
	switch {
	case ev.Err != nil && queue.Terminal(ev.Err):
		c.fail(StageLoad, ev.Err)
	case ev.Err != nil:
		c.loadFailed(now, ev.Err)
	default:
		if err := checkRows(ev); err != nil {
			c.fail(StageLoad, err)
			return
		}
		c.adopt(now, ev)
	}
}

// loadFailed retries for ever, slower and slower; after a minute it says so (B-235).
func (c *Controller) loadFailed(now Now, err error) {
	l := &c.load
	l.err = err
	l.tries++
	if l.tries == 1 {
		l.since = now
		c.timers.set(l.alarmAt, now+loadAlarm)
	}
	c.timers.set(l.retryAt, now+backoff(c.random, c.cfg.QueueBackoff, maxBackoff, l.tries))
}

func checkRows(ev Loaded) error {
	if ev.Epoch == 0 {
		return fmt.Errorf("%w: epoch 0", queue.ErrConflict)
	}
	last := int64(0)
	for _, row := range ev.Rows {
		if row.StoreSeq <= last || row.StoreSeq > ev.State.Cursor {
			return fmt.Errorf("%w: row %d after row %d with cursor %d", queue.ErrConflict, row.StoreSeq, last, ev.State.Cursor)
		}
		if row.MessageID == "" {
			return fmt.Errorf("%w: row %d has no message id", queue.ErrConflict, row.StoreSeq)
		}
		last = row.StoreSeq
	}
	return nil
}

// adopt begins a session from what the queue holds. Jobs of an earlier session of this Controller keep what only it knows:
// payloads in memory, back-offs, and settlements that are not durable yet.
func (c *Controller) adopt(now Now, ev Loaded) {
	l := &c.load
	l.tries, l.failing, l.err = 0, false, nil
	c.timers.stop(l.alarmAt)
	alone := ev.Epoch == c.epoch+1 // nobody else loaded since
	c.epoch, c.cursor = ev.Epoch, ev.State.Cursor
	c.counts.deadLetters = ev.State.DeadLetters
	c.session = c.random.ID()
	c.phase = PhaseRunning
	c.told.loaded(ev.Epoch)
	c.tickets.rekey(ev.State.Secret)
	c.queueName = c.tickets.queue()
	c.members.loaded(ev.State.Workers)

	before := c.jobs
	c.jobs = make(map[string]*job, len(before))
	c.backlog = newBacklog()
	c.fetch.forget()
	c.memory = 0
	for _, row := range ev.Rows {
		c.adoptRow(before, row, alone)
	}
	c.reviewSettlements(now, before, alone)
	c.resolveUnseen(now)
	c.shutGate(now, ev.State.Workers, l.bound)
	l.bound = nil
	c.forgive()
	for _, e := range c.endpointsL {
		c.renew(e)
	}
	c.answerWaiting(now)
}

func (c *Controller) adoptRow(before map[string]*job, row queue.Row, alone bool) {
	j := before[row.MessageID]
	switch {
	case j == nil:
		c.backlog.pack(packedJob{
			seq: row.StoreSeq, size: int32(row.PayloadBytes), attempts: int32(row.Attempts), uncounted: int32(row.Uncounted), reloaded: true,
		})
		return
	case j.seq != row.StoreSeq:
		j = &job{body: protocol.Job{MessageID: row.MessageID}, seq: row.StoreSeq, reloaded: true}
	case !alone && (j.place != settling || j.dead):
		// A person may have re-driven it at the writer in between: of what was known here, its bytes and a success still hold.
		j = &job{body: j.body, seq: j.seq, reloaded: true, dispatched: j.dispatched, last: j.last}
	}
	j.index = -1
	j.size = int32(row.PayloadBytes)
	j.attempts = max(j.attempts, int32(row.Attempts))
	j.uncounted = max(j.uncounted, int32(row.Uncounted))
	j.binding, j.workerSeq, j.resend = nil, 0, false
	c.jobs[row.MessageID] = j
	if j.loaded() {
		c.memory += int64(j.size)
	}
	switch j.place {
	case settling:
	case delayed:
		c.backlog.delay(j, j.due)
	default:
		if c.backlog.cold > 0 { // in the ring, only cold ones follow a cold one
			c.unload(j)
		}
		c.backlog.append(j)
	}
}

// reviewSettlements decides about the settlements that wait for their write and whose rows the load did not see. If nobody else wrote
// since, they are written. Else a confirm may have been written, or the job is a dead letter by another writer now, which is to be found out; a
// dead letter is that writer's to tell of, and stored anew if the load says so.
func (c *Controller) reviewSettlements(now Now, before map[string]*job, alone bool) {
	for _, ops := range []*deque[settleOp]{&c.lane.settles, &c.lane.settlement.lone} {
		for range ops.len() {
			op := ops.pop()
			j, id := op.job, op.job.body.MessageID
			switch {
			case c.jobs[id] == j:
				ops.push(op)
			case !op.end || before[id] != j:
			case c.jobs[id] == nil && alone:
				c.jobs[id] = j
				if j.dead {
					c.counts.deadLetters-- // counted by the load, and again by its end
				}
				c.ended(now, j)
			case c.jobs[id] == nil && !j.dead:
				j.place = 0
				c.load.unseen = append(c.load.unseen, j)
			default:
				j.place = 0
				c.counts.settling--
			}
		}
	}
	c.counts.isolated = c.lane.settlement.lone.len()
}

// resolveUnseen asks once a load what became of the jobs that no load saw since a handler finished them.
func (c *Controller) resolveUnseen(now Now) {
	for _, j := range slices.Clone(c.load.unseen) {
		if back := c.find(j.ref()); back != nil { // a person put it back at another writer
			c.finishUnseen(now, back)
		}
	}
	if len(c.load.unseen) == 0 {
		return
	}
	refs := make([]queue.JobRef, len(c.load.unseen))
	for i, j := range c.load.unseen {
		refs[i] = j.ref()
	}
	c.emit(ResolveClaims{Epoch: c.epoch, Refs: refs})
}

// finishUnseen confirms a job that is stored again, if a handler finished it.
func (c *Controller) finishUnseen(now Now, j *job) {
	if finished := c.seen(j.ref()); finished != nil {
		c.finishClaimed(now, nil, j, finished.reason)
	}
}

// seen takes a job off the unseen ones; nil if it is none of them.
func (c *Controller) seen(ref queue.JobRef) *job {
	i := slices.IndexFunc(c.load.unseen, func(j *job) bool { return j.ref() == ref })
	if i < 0 {
		return nil
	}
	j := c.load.unseen[i]
	c.load.unseen = slices.Delete(c.load.unseen, i, i+1)
	c.counts.settling--
	return j
}

// reload begins anew under the next epoch: nothing stored is lost, endpoints and workers keep their streams (B-232).
func (c *Controller) reload(now Now) {
	l := &c.lane
	c.phase = PhaseLoading
	c.session = ""
	c.load.bound = c.holders()
	c.openGate()
	for c.roster.len() > 0 {
		b := c.roster.ring[0]
		c.tellEnded(b, protocol.RefusedUnavailable, "the producer reloads its queue", 0)
		c.unbind(now, b, kept)
	}
	for _, e := range c.endpointsL {
		c.owe(now, e)
		c.renew(e)
	}
	c.storing = 0
	l.stores.reset(0)
	accepts := l.accepts
	l.accepts.reset(0)
	if l.again != nil {
		for _, ref := range l.again.accepts {
			l.accepts.push(ref)
		}
	}
	for accepts.len() > 0 {
		l.accepts.push(accepts.pop())
	}
	c.gatherSettlements()
	l.again, l.tries = nil, 0
	c.timers.stop(l.retryAt)
	c.askLoad()
}

// gatherSettlements brings everything that is not durable back into one queue; rows that stand apart stay there.
func (c *Controller) gatherSettlements() {
	s := &c.lane.settlement
	for _, segment := range s.segments {
		c.lane.putBack(segment)
	}
	s.segments = nil
}

// redriven takes a dead letter back that a person put among the stored jobs. While the queue is being loaded there is nothing to do:
// the load sees it, or it was fenced and did not happen.
func (c *Controller) redriven(now Now, row queue.Row) {
	if c.phase != PhaseRunning {
		return
	}
	switch old := c.jobs[row.MessageID]; {
	case old == nil && c.backlog.holds(row.StoreSeq):
		return
	case old == nil:
	case old.seq == row.StoreSeq && old.place == settling && old.dead:
		c.ended(now, old) // there was a dead letter to put back, so its write was durable, whatever the lane has heard
	default:
		return
	}
	c.counts.deadLetters--
	j := &job{
		body: protocol.Job{MessageID: row.MessageID}, seq: row.StoreSeq, size: int32(row.PayloadBytes), index: -1,
		attempts: int32(row.Attempts), uncounted: int32(row.Uncounted), reloaded: true, redriven: true,
	}
	c.jobs[row.MessageID] = j
	c.backlog.requeue(j)
	c.finishUnseen(now, j)
}

// vanished lets go of a re-driven job that ended before the word about it came, by a claim that overtook it. Where a worker runs it all
// the same, that one has the last word, which changes nothing.
func (c *Controller) vanished(j *job) {
	if j.place == bound {
		c.unwant(j)
		j.redriven = false
		c.counts.deadLetters++
		return
	}
	c.backlog.withdraw(j)
	delete(c.jobs, j.body.MessageID)
	j.place = 0
	c.counts.deadLetters++
}
