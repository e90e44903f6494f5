package delivery

import (
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// workerConn is one verified stream.
type workerConn struct {
	conn    ConnID
	serial  uint64 // order of connection
	worker  Worker
	binding *binding
	// waiting is a registration that came while the queue was loading.
	waiting *protocol.RegisterConsumer

	malformed   int
	malformedAt Now
	strayAt     Now // when it was last told that its binding is unknown
	strayTold   bool
}

// pod is what outlives a binding: which incarnations of a pod are over, and how it behaved.
type pod struct {
	uid        string
	number     uint64 // counts pods; never reused
	worker     Worker // as it registered last
	binding    *binding
	boot       string   // of the newest incarnation
	superseded []string // boot nonces that are over (B-089)
	serial     uint64   // of the latest stream on which that incarnation registered

	violations  int
	violationAt Now
	deaths      int
	deathAt     Now
	mourned     string // boot nonce of the process that was counted last
	coolUntil   Now
	cooling     string // why
	cooled      *timer

	unboundAt Now
	queued    bool
}

const (
	rememberedBoots  = 16
	rememberedNonces = 8
	// unboundPods and unboundFor bound how many pods without a binding are remembered, and for how long.
	unboundPods = 4096
	unboundFor  = time.Hour
	// malformedLimit is how many malformed messages a stream may send in one liveness deadline (B-204).
	malformedLimit = 64
)

func (c *Controller) connect(ev WorkerConnected) {
	if _, ok := c.conns[ev.Conn]; ok {
		c.drop("worker-connected-twice")
		return
	}
	c.connections++
	w := &workerConn{conn: ev.Conn, serial: c.connections, worker: ev.Worker}
	c.conns[ev.Conn] = w
	c.connsL = append(c.connsL, w)
}

// disconnect keeps the binding: the worker may come back before its deadline and lose nothing.
func (c *Controller) disconnect(now Now, conn ConnID) {
	w, ok := c.conns[conn]
	if !ok {
		return
	}
	delete(c.conns, conn)
	c.connsL = slices.DeleteFunc(c.connsL, func(x *workerConn) bool { return x == w })
	if b := w.binding; b != nil {
		b.conn, w.binding = nil, nil
		c.refresh(now, b)
	}
}

func (c *Controller) workerGone(now Now, ev WorkerGone) {
	if ev.BootNonce == "" {
		c.arrived(ev.PodUID)
	}
	p, ok := c.pods[ev.PodUID]
	if !ok {
		return
	}
	if ev.BootNonce == "" {
		ev.BootNonce = p.boot
		c.readmit(p)
	}
	p.supersede(ev.BootNonce)
	if p.binding != nil && p.boot == ev.BootNonce {
		c.endBinding(now, p.binding, protocol.RefusedSuperseded, ev.Reason, 0, true)
	}
}

// supersede remembers that an incarnation is over.
func (p *pod) supersede(boot string) {
	if boot == "" || slices.Contains(p.superseded, boot) {
		return
	}
	if len(p.superseded) == rememberedBoots {
		p.superseded = p.superseded[1:]
	}
	p.superseded = append(p.superseded, boot)
}

// rest notes that a pod has no binding, and forgets pods that had none for long.
func (c *Controller) rest(now Now, p *pod) {
	p.binding, p.unboundAt = nil, now
	if !p.queued {
		p.queued = true
		c.unbound.push(p)
	}
	for c.unbound.len() > 0 {
		oldest := c.unbound.at(c.unbound.first)
		if oldest.binding == nil && now-oldest.unboundAt < unboundFor && c.unbound.len() <= unboundPods {
			return
		}
		c.unbound.pop()
		oldest.queued = false
		if oldest.binding == nil && oldest != p {
			c.readmit(oldest)
			delete(c.pods, oldest.uid)
		}
	}
}

func (c *Controller) workerMessage(now Now, ev WorkerMessage) {
	w, ok := c.conns[ev.Conn]
	if !ok {
		c.drop("unknown-connection")
		return
	}
	switch m := ev.Message.(type) {
	case protocol.Ack:
		if b := c.authorise(now, w, m.BindingRef); b != nil {
			c.ack(now, b, m)
		}
	case protocol.Request:
		if b := c.authorise(now, w, m.BindingRef); b != nil {
			c.request(now, b, m)
		}
	case protocol.Heartbeat:
		if b := c.authorise(now, w, m.BindingRef); b != nil {
			c.noteStarted(now, b, m.StartedSeq)
		}
	case protocol.Drain:
		if b := c.authorise(now, w, m.BindingRef); b != nil {
			b.draining = true
			c.refresh(now, b)
		}
	case protocol.RegisterConsumer:
		c.register(now, w, m)
	default:
		c.malformed(now, w, "unknown-message")
	}
}

// authorise returns the binding that the message speaks for, if its stream, id and secret all agree, and notes that its worker
// lives. A worker that speaks for a binding that is gone is told so, at most once a second.
func (c *Controller) authorise(now Now, w *workerConn, ref protocol.BindingRef) *binding {
	if b := w.binding; b != nil && b.id == ref.BindingID && b.secret == ref.Secret {
		c.hear(now, b)
		return b
	}
	c.drop(string(protocol.RefusedUnknownBinding))
	if p := c.pods[w.worker.PodUID]; p != nil && p.binding != nil && p.binding.id == ref.BindingID {
		return nil // alive, and about to move to this stream
	}
	if ref.BindingID == "" || c.phase != PhaseRunning || w.strayTold && now-w.strayAt < time.Second {
		return nil
	}
	w.strayTold, w.strayAt = true, now
	c.toWorker(w.conn, protocol.BindingEnded{
		BindingID: ref.BindingID, Code: protocol.RefusedUnknownBinding, Reason: "the binding is not known here",
	})
	return nil
}

// request takes demand in (G-063). Older demand after newer changes nothing (B-105).
func (c *Controller) request(now Now, b *binding, m protocol.Request) {
	if err := m.CheckRange(b.current); err != nil {
		c.violation(now, b, err.Error())
		return
	}
	b.noteStarted(m.StartedSeq)
	b.demand = max(b.demand, m.RequestUpTo)
	c.refresh(now, b)
	if m.ViaTimeout {
		if m.ConfirmedSeq < b.watermark() { // it missed what was taken over
			b.settle = true
			c.mark(b)
		}
		c.resend(b, m.ConfirmedSeq+1, m.RequestUpTo)
	}
}

func (c *Controller) noteStarted(now Now, b *binding, started int64) bool {
	if started < 0 || started > b.current {
		c.violation(now, b, "the started sequence was never sent")
		return false
	}
	b.noteStarted(started)
	return true
}

func (b *binding) noteStarted(started int64) {
	b.started, b.told = max(b.started, started), max(b.told, started)
}

// violation ends the binding of a worker that breaks the protocol, and lets its pod wait, longer each time (G-101, B-204).
func (c *Controller) violation(now Now, b *binding, reason string) {
	c.drop(string(protocol.RefusedViolation))
	wait := c.violated(now, b.pod)
	c.endBinding(now, b, protocol.RefusedViolation, reason, wait, b.pod.violations > 1)
}

// malformed counts a message that says nothing; too many end the stream.
func (c *Controller) malformed(now Now, w *workerConn, reason string) {
	c.drop(reason)
	if now-w.malformedAt > c.cfg.Deadline {
		w.malformed, w.malformedAt = 0, now
	}
	if w.malformed++; w.malformed < malformedLimit {
		return
	}
	w.malformed = 0
	if w.binding != nil {
		c.violation(now, w.binding, "too many malformed messages")
	}
	c.emit(CloseWorker{w.conn, protocol.RefusedViolation})
}

// endBinding tells the worker that its binding is over, and requeues what it held.
func (c *Controller) endBinding(now Now, b *binding, code protocol.RefusalCode, reason string, wait time.Duration, hangUp bool) {
	c.tellEnded(b, code, reason, wait)
	if hangUp && b.conn != nil {
		c.emit(CloseWorker{b.conn.conn, code})
	}
	if b.bound > 0 && code == protocol.RefusedDeadlineExpired {
		c.died(now, b.pod)
	}
	c.unbind(now, b, lost)
}

func (c *Controller) tellEnded(b *binding, code protocol.RefusalCode, reason string, wait time.Duration) {
	if b.conn != nil {
		c.toWorker(b.conn.conn, protocol.BindingEnded{BindingID: b.id, Code: code, Reason: reason, RetryAfter: wait})
	}
}

func handBack(b *binding, count int) protocol.HandBack {
	return protocol.HandBack{BindingID: b.id, Count: count}
}
