package delivery

import (
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// binding is one worker incarnation's sub-flow: its own id and secret, worker sequences 1…current, its own demand.
type binding struct {
	id, secret string
	pod        *pod
	conn       *workerConn // nil while its stream is away
	worker     Worker
	revision   *revision
	nonce      string
	nonces     []string // a few earlier ones

	window   int
	demand   int64 // highest RequestUpTo seen
	current  int64 // last worker sequence given out
	started  int64 // highest StartedSeq seen
	told     int64 // highest StartedSeq seen on the present stream: a worker that was away may have forgotten the binding
	draining bool

	adopted   int  // jobs that came by claims, beyond the window if need be
	resolving bool // the host looks up claims of it

	// slots holds the jobs of the sequences above the watermark, nil where the settlement was taken over: the watermark is
	// slots.first-1, and the nils above it are the above-set.
	slots    deque[*job]
	bound    int // unsettled jobs in slots
	settling int // settled ones that are not durable yet

	ring int    // position in the roster
	free int    // its part of the roster's free demand
	load int    // position in the roster's order of loads, -1 outside
	turn uint64 // when it was served last, see roster.turns

	heard    Now
	liveness *timer
	beat     *timer
	// heartbeat and deadline are what the worker was told last: a change of the configuration reaches it with its next registration.
	heartbeat, deadline time.Duration

	framed bool
	out    []protocol.Delivery // to be sent at the end of this step
	above  []int64             // taken over in this step
	settle bool                // a SettledAck is due
}

func (b *binding) watermark() int64 { return b.slots.first - 1 }

// unstarted is how many unsettled jobs the worker has not started, as far as it told.
func (b *binding) unstarted() int {
	return min(b.bound, int(b.current-max(b.started, b.watermark())))
}

// maxSpan bounds the above-set of a binding.
const maxSpan = 2 * protocol.MaxFlowControlWindow

// freeDemand is how many more jobs the worker gets now.
func (b *binding) freeDemand(c *Controller, now Now) int {
	return b.revision.admits(b, b.capacity(c, now))
}

// capacity is how many more jobs the worker has demand for (I-4).
func (b *binding) capacity(c *Controller, now Now) int {
	if b.conn == nil || b.draining || now-b.heard >= doubtOf(b.deadline) {
		return 0
	}
	window := min(b.window, c.cfg.MaxWindow)
	free := min(b.demand-b.current, int64(window-b.bound-b.settling), maxSpan-int64(b.slots.len()), protocol.MaxSequence-b.current)
	return int(max(0, free))
}

// refresh brings the roster up to date after anything that free demand depends on.
func (c *Controller) refresh(now Now, b *binding) {
	c.choose(now, b)
	c.roster.setFree(b, b.freeDemand(c, now))
}

func (b *binding) find(seq int64) *job {
	if !b.slots.has(seq) {
		return nil
	}
	return b.slots.at(seq)
}

// bind makes a fresh binding for an incarnation on a stream.
func (c *Controller) bind(now Now, w *workerConn, p *pod, m protocol.RegisterConsumer) *binding {
	c.bindings++
	b := &binding{
		id: c.random.ID(), secret: c.random.ID(),
		pod: p, conn: w, worker: w.worker, nonce: m.Nonce, window: min(m.Window, c.cfg.MaxWindow), heard: now,
		heartbeat: c.cfg.Heartbeat, deadline: c.cfg.Deadline,
	}
	b.slots.reset(1)
	b.liveness = newTimer(func(now Now) { c.checkLiveness(now, b) })
	b.beat = newTimer(func(now Now) { c.sendHeartbeat(now, b) })
	p.binding, w.binding = b, b
	c.join(b)
	c.roster.add(b)
	c.members.bound(p)
	c.arrived(p.uid)
	c.armLiveness(now, b)
	c.timers.set(b.beat, now+b.heartbeat)
	return b
}

// fate says what the end of a binding means for the jobs it held.
type fate bool

const (
	lost fate = true  // the worker is gone: what it started counts as a try
	kept fate = false // the worker did nothing wrong
)

// unbind takes a binding out of the flow; its unsettled jobs go back to the backlog (G-103). What it settled stays settled.
func (c *Controller) unbind(now Now, b *binding, f fate) {
	c.roster.remove(b)
	c.leave(now, b, f)
	c.members.unbound(b.pod)
	c.timers.stop(b.liveness)
	c.timers.stop(b.beat)
	if b.conn != nil {
		b.conn.binding = nil
		b.conn = nil
	}
	c.rest(now, b.pod)
	for n := b.slots.first; n < b.slots.end(); n++ {
		j := b.slots.at(n)
		if j == nil {
			continue
		}
		j.binding = nil
		if j.place == bound {
			c.inFlight--
			if f == lost {
				j.last = b.pod.number
			}
			c.comeBack(now, j, f, n <= b.started)
		}
	}
	b.slots.reset(b.current + 1)
	b.bound, b.settling = 0, 0
}

// retireSpent ends a binding whose sequences are used up, once nothing of it is left; its worker begins another (G-045, B-205).
func (c *Controller) retireSpent(now Now, b *binding) {
	if b.current >= protocol.MaxSequence && b.bound+b.settling == 0 && b.ring >= 0 {
		c.endBinding(now, b, protocol.RefusedSequenceSpent, "the worker sequence of this binding is used up", 0, false)
	}
}

// mark puts the binding on the list of those that are told something at the end of this step.
func (c *Controller) mark(b *binding) {
	if !b.framed {
		b.framed = true
		c.framed = append(c.framed, b)
	}
}

// frame adds a delivery to what the binding is sent in this step.
func (c *Controller) frame(j *job, body protocol.Job) {
	b := j.binding
	b.out = append(b.out, protocol.Delivery{
		WorkerSeq: j.workerSeq, StoreSeq: j.seq, Attempt: j.attempt(), Redelivered: j.redelivered, Job: body,
		Ticket: c.ticket(b, j),
	})
	c.mark(b)
}

// flush sends what gathered for each binding in this step: what was taken over, then its deliveries in frames.
func (c *Controller) flush() {
	for _, b := range c.framed {
		if b.conn != nil {
			c.flushBinding(b)
		}
		b.framed, b.settle = false, false
		b.above = b.above[:0]
		clear(b.out)
		b.out = b.out[:0]
	}
	c.framed = c.framed[:0]
}

func (c *Controller) flushBinding(b *binding) {
	conn := b.conn.conn
	if b.settle {
		c.toWorker(conn, protocol.SettledAck{BindingID: b.id, UpTo: b.watermark(), Above: b.takenAbove()})
	}
	bySeq := func(x, y protocol.Delivery) int { return int(min(1, max(-1, x.WorkerSeq-y.WorkerSeq))) }
	if !slices.IsSortedFunc(b.out, bySeq) {
		slices.SortFunc(b.out, bySeq)
	}
	for rest := b.out; len(rest) > 0; {
		n := c.frameLength(rest)
		c.toWorker(conn, protocol.SequencedMessage{BindingID: b.id, Deliveries: slices.Clone(rest[:n])})
		rest = rest[n:]
	}
}

func (b *binding) takenAbove() []int64 {
	var above []int64
	for _, seq := range b.above {
		if seq > b.watermark() {
			above = append(above, seq)
		}
	}
	return above
}

const maxFrameDeliveries = 1024

// frameLength is how many of the deliveries fit into one frame, at least one.
func (c *Controller) frameLength(deliveries []protocol.Delivery) int {
	bytes := 0
	for i, d := range deliveries {
		bytes += len(d.Job.Payload)
		if i > 0 && (bytes > c.cfg.MaxFrameBytes || i == maxFrameDeliveries) {
			return i
		}
	}
	return len(deliveries)
}
