package delivery

import (
	"errors"
	"fmt"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// lane is the durable lane: one batch in flight, the next one gathers meanwhile.
//
// Its operations are of two kinds. Handshake operations (Store, Accept) have a budget of tries; when it is spent the
// Controller reloads. Settlements (attempts, dead letters, confirms) have none: they wait, so that a write that fails never
// takes a healthy pool down (G-X10). Both share a batch as long as nothing fails.
type lane struct {
	op   OpID // in flight, 0 if none
	sent batch

	stores  deque[*handshake]
	accepts deque[queue.JobRef]
	settles deque[settleOp]

	// again is the handshake batch that failed. It is repeated unchanged, because it may have been written after all, and the
	// cursor in it speaks of exactly these stores.
	again        *batch
	tries        int
	handshakeErr error
	retryAt      *timer
	full         error // why the queue has no room for new jobs; nil once it takes one
	fullAt       Now   // when it said so last

	settlement settlementState
	settleErr  error
	withheld   bool
	turn       bool // a handshake went last while the kinds go apart
	storeTurn  bool // a store went last in a lane of one
}

// batch is what one ApplyBatch carries.
type batch struct {
	cursor  int64
	stores  []*handshake
	accepts []queue.JobRef
	settles []settleOp
	members []protocol.Incarnation // the list of bound workers, nil if it has no news
	verify  bool                   // its success proves that the epoch is still ours, for jobs that were not found
	probe   bool                   // the settlements are a segment of the search for the one that fails
	lone    bool                   // the settlement is an isolated one
	doubted uint64                 // its success disproves that epoch
}

// settleOp is one write about a job that left the handshake behind: its counters, or its end (place settling).
type settleOp struct {
	job *job
	end bool
}

func (b batch) handshake() bool { return len(b.stores)+len(b.accepts) > 0 }
func (b batch) empty() bool     { return !b.handshake() && len(b.settles) == 0 }

// stage names the step that a failing batch failed at.
func (b batch) stage() Stage {
	switch {
	case len(b.stores) > 0:
		return StageStore
	case len(b.accepts) > 0:
		return StageAccept
	default:
		return StageConfirm
	}
}

// maxBatchBytes bounds the payload of one batch; one store always fits.
const maxBatchBytes = 16 << 20

func (l *lane) init() {
	l.retryAt = newTimer(func(Now) {})
	l.settlement.init()
}

// runLane sends the next batch if the lane is free and there is something to write.
func (c *Controller) runLane() {
	l := &c.lane
	if l.op != 0 {
		return
	}
	b, ok := c.nextBatch()
	if !ok && c.settlementsGone() {
		b, ok = c.nextBatch()
	}
	if !ok && !c.members.due() {
		return
	}
	c.ride(&b)
	b.verify, b.doubted = len(c.fetch.missing) > 0, c.told.doubted
	l.op, l.sent = c.nextOp(), b
	c.emit(ApplyBatch{Op: l.op, Epoch: c.epoch, Batch: b.write()})
}

func (c *Controller) nextBatch() (batch, bool) {
	l := &c.lane
	switch {
	case l.again != nil:
		if !l.retryAt.armed() {
			return *l.again, true
		}
	case l.settlement.calm() && l.full != nil:
		b := c.gatherApart()
		return b, !b.empty()
	case l.settlement.calm():
		b := c.gather(true)
		return b, !b.empty()
	case !l.turn || !l.settlement.due():
		if b := c.gather(false); !b.empty() {
			l.turn = true
			return b, true
		}
	}
	l.turn = false
	b := c.nextSettlements()
	return b, !b.empty()
}

// gather takes the next operations off the queues. Handshake operations go first, but leave a quarter of the batch to
// settlements that wait (B-230).
func (c *Controller) gather(settles bool) batch {
	l := &c.lane
	limit := c.cfg.MaxBatch
	room := limit
	if settles && l.settles.len() > 0 {
		room -= min(l.settles.len(), max(1, limit/4))
		if limit == 1 { // no quarters: turns
			if l.turn = !l.turn; l.turn {
				room = 1
			}
		}
	}
	b := batch{cursor: c.cursor}
	l.takeHandshake(&b, room)
	if settles {
		b.settles = l.takeSettles(limit - len(b.stores) - len(b.accepts))
	}
	return b
}

func (l *lane) takeHandshake(b *batch, room int) {
	// Half each when both wait, so that accepts do not pile up behind stores.
	stores := min(l.stores.len(), max(room-l.accepts.len(), room/2))
	if room == 1 && l.stores.len() > 0 && l.accepts.len() > 0 {
		if l.storeTurn = !l.storeTurn; l.storeTurn {
			stores = 1
		}
	}
	if l.full != nil && l.stores.len() > 0 && l.accepts.len() > 0 { // a job without room must not hold up an accept
		if l.storeTurn = !l.storeTurn; l.storeTurn {
			l.takeStores(b, room)
			return
		}
		stores = 0
	}
	l.takeStores(b, stores)
	l.takeAccepts(b, room-len(b.stores))
}

func (l *lane) takeStores(b *batch, room int) {
	stores := min(l.stores.len(), room)
	if stores > 0 {
		b.stores = make([]*handshake, 0, stores)
	}
	for bytes := 0; stores > 0; stores-- {
		bytes += len(l.stores.at(l.stores.first).job.Payload)
		if bytes > maxBatchBytes && len(b.stores) > 0 {
			break
		}
		b.stores = append(b.stores, l.stores.pop())
	}
}

func (l *lane) takeAccepts(b *batch, room int) {
	accepts := min(l.accepts.len(), room)
	if accepts > 0 {
		b.accepts = make([]queue.JobRef, 0, accepts)
	}
	for range accepts {
		b.accepts = append(b.accepts, l.accepts.pop())
	}
}

func (l *lane) takeSettles(room int) []settleOp {
	n := min(room, l.settles.len())
	if n <= 0 {
		return nil
	}
	ops := make([]settleOp, 0, n)
	for l.settles.len() > 0 && len(ops) < n {
		if op := l.settles.pop(); op.current() {
			ops = append(ops, op)
		}
	}
	return ops
}

// renew makes a write current again that failed.
func (op settleOp) renew() {
	if !op.end && op.job.place != settling && op.job.place != 0 {
		op.job.dirty = true
	}
}

// current reports whether the write still says something: counters of a job that ended meanwhile do not.
func (op settleOp) current() bool {
	return op.end == (op.job.place == settling) && (op.end || op.job.dirty)
}

func (b batch) write() queue.Batch {
	w := queue.Batch{Cursor: b.cursor, Accepts: b.accepts, Workers: b.members}
	if len(b.stores) > 0 {
		w.Stores = make([]queue.StoreRequest, len(b.stores))
		for i, h := range b.stores {
			w.Stores[i] = queue.StoreRequest{Job: h.job, Digest: h.digest}
		}
	}
	for _, op := range b.settles {
		j := op.job
		switch {
		case !op.end:
			w.Attempts = append(w.Attempts, queue.AttemptRecord{
				JobRef: j.ref(), Attempts: int(j.attempts), Uncounted: int(j.uncounted), LastReason: j.reason,
			})
			j.dirty = false
		case j.dead:
			w.DeadLetters = append(w.DeadLetters, queue.DeadLetterRequest{JobRef: j.ref(), Attempts: int(j.attempts), Reason: j.reason})
		default:
			if w.Confirms == nil {
				w.Confirms = make([]queue.JobRef, 0, len(b.settles))
			}
			w.Confirms = append(w.Confirms, j.ref())
		}
	}
	return w
}

func (c *Controller) applied(now Now, ev Applied) {
	l := &c.lane
	if ev.Op == 0 || ev.Op != l.op {
		c.drop("foreign-operation")
		return
	}
	b := l.sent
	l.op, l.sent = 0, batch{}
	switch {
	case ev.Err == nil && len(ev.Result.Stores) != len(b.stores):
		c.fail(StageStore, fmt.Errorf("%w: %d answers to %d stores", queue.ErrConflict, len(ev.Result.Stores), len(b.stores)))
	case ev.Err == nil:
		c.written(now, b, ev.Result)
	case errors.Is(ev.Err, queue.ErrConflict) && b.handshake() && l.again != nil:
		// An earlier try of this batch may have been written, and an id that it found settled may have left the deduplication
		// window since: then the cursor is not the store's any more, and only a load can tell. A true conflict comes again.
		c.reload(now)
	case queue.Terminal(ev.Err):
		c.fail(b.stage(), ev.Err)
	default:
		c.notWritten(now, b, ev.Err)
	}
}

func (c *Controller) written(now Now, b batch, result queue.Result) {
	l := &c.lane
	if b.handshake() {
		l.again, l.tries, l.handshakeErr = nil, 0, nil
		c.cursor = max(c.cursor, result.Cursor)
	}
	l.tookNew(result.Stores)
	for i, h := range b.stores {
		c.stored(now, h, result.Stores[i], b.cursor)
	}
	if len(b.settles) > 0 {
		c.settlementsWritten(now, b)
	}
	if b.members != nil {
		c.members.tries = 0
	}
	if b.doubted > 0 {
		c.told.disproven(b.doubted)
	}
	if b.verify {
		c.verified()
	}
}

// notWritten decides what a retriable error means: a mixed batch is split first, so that neither kind suffers for the other.
func (c *Controller) notWritten(now Now, b batch, err error) {
	l := &c.lane
	if b.verify {
		c.unverified(now)
	}
	c.membersNotWritten(now, b)
	if b.empty() {
		return
	}
	if !b.handshake() {
		c.settlementsNotWritten(now, b, err)
		return
	}
	if len(b.stores) > 0 && l.again == nil && errors.Is(err, queue.ErrFull) {
		c.turnAway(now, b, err)
		return
	}
	l.tries++
	l.handshakeErr = err
	l.again = &batch{cursor: b.cursor, stores: b.stores, accepts: b.accepts}
	switch {
	case len(b.settles) > 0: // the split is not the retry: it follows at once
		l.putBack(b.settles)
		l.settlement.suspect(now)
	case l.tries >= c.cfg.QueueAttempts:
		c.reload(now)
	default:
		c.timers.set(l.retryAt, now+c.cfg.QueueBackoff)
	}
}

// retryNow ends every wait that an outage of the queue has caused. A settlement that stands apart keeps its own pace: its trouble is
// its own.
func (c *Controller) retryNow(now Now) {
	for _, t := range []*timer{c.load.retryAt, c.lane.retryAt, c.lane.settlement.retryAt, c.fetch.retryAt, c.members.retryAt} {
		if t.armed() {
			c.timers.set(t, now)
		}
	}
}

// putBack returns settlements to the head of their queue.
func (l *lane) putBack(ops []settleOp) {
	rest := l.settles
	l.settles.reset(0)
	for _, op := range ops {
		op.renew()
		l.settles.push(op)
	}
	for rest.len() > 0 {
		l.settles.push(rest.pop())
	}
}

// stored takes a Store's outcome in: from here on the job is ours, whatever becomes of its endpoint. cursor is the batch's.
func (c *Controller) stored(now Now, h *handshake, result queue.StoreResult, cursor int64) {
	body := h.job
	c.finishStore(now, h, result)
	if result.Verdict != protocol.StoredNew && result.Verdict != protocol.AlreadyStored {
		return
	}
	switch old := c.jobs[h.id]; {
	case old == nil && result.Verdict == protocol.AlreadyStored && c.backlog.holds(result.StoreSeq):
		return // the same of a job whose id was left to the queue
	case old == nil && result.StoreSeq <= cursor:
		// A dead letter that a person has put back: the word about it is on its way, and admits it once.
		return
	case old == nil:
	case old.seq == result.StoreSeq:
		return // a resubmission of what is here already (G-153)
	default:
		// The store has forgotten the job of this id that is held here, so its end was durable, whatever the lane has heard.
		c.ended(now, old)
	}
	// Also an AlreadyStored that is not here: the first write of a batch whose answer was lost.
	c.counts.accepted++
	c.admitJob(&job{
		body: body, seq: result.StoreSeq, size: int32(len(body.Payload)), index: -1, reloaded: result.Verdict != protocol.StoredNew,
	})
}

// leastInMemory is how much of the budget a job takes in memory at least, for its payload is not all that it takes; fewWarm jobs are not worth
// counting that.
const (
	leastInMemory = 256
	fewWarm       = 1024
)

// roomFor reports whether the memory has room for one more waiting job of a size.
func (c *Controller) roomFor(size int32) bool {
	return c.memory+c.fetch.bytes+int64(size) <= c.cfg.MemoryBytes && int64(c.backlog.warm()) < max(c.cfg.MemoryBytes/leastInMemory, fewWarm)
}

// admitJob adds a job that was just stored. It stays in memory if there is room, or a worker waiting for it.
func (c *Controller) admitJob(j *job) {
	b := &c.backlog
	loaded := b.far() == 0 && c.roomFor(j.size) || c.dispatching && c.roster.free > b.jobs-b.held.jobs
	switch late := j.seq < b.newest; {
	case loaded:
		c.memory += int64(j.size)
	case !late:
		b.pack(packedJob{seq: j.seq, size: j.size, reloaded: j.reloaded})
		return
	default:
		j.body.Payload, j.body.Headers = nil, nil
	}
	c.jobs[j.body.MessageID] = j
	if !loaded || b.far() > 0 || j.seq < b.newest {
		b.requeue(j)
		return
	}
	b.append(j)
}

// queueEnd queues the durable end of a job (place settling), queueCounters that of its counters.
func (c *Controller) queueEnd(j *job) { c.lane.settles.push(settleOp{job: j, end: true}) }

func (c *Controller) queueCounters(j *job) {
	if !j.dirty {
		j.dirty = true
		c.lane.settles.push(settleOp{job: j})
	}
}
