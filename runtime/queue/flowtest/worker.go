package flowtest

import (
	"bytes"
	"maps"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// worker is a pod with a Consumer. Its handlers succeed at once unless it holds them.
type worker struct {
	w    *world
	name string
	cons *delivery.Consumer
	conn delivery.ConnID
	to   *producer
	dead bool
	// hold keeps handlers running until finish.
	hold    bool
	running map[string]delivery.RunID
	starts  []protocol.Delivery
}

// work starts a worker that is bound to a producer; it holds its handlers if the world does so.
func (w *world) work(name string, p *producer) *worker {
	w.Helper()
	cfg := delivery.DefaultConsumerConfig()
	cfg.Concurrency = 4
	wk := &worker{w: w, name: name, hold: w.hold, running: map[string]delivery.RunID{}}
	wk.cons = delivery.NewConsumer(cfg, protocol.Incarnation{PodUID: name, BootNonce: name + "-boot"}, &w.random)
	w.workers = append(w.workers, wk)
	wk.step(delivery.AppReady{Ready: true})
	wk.connect(p)
	return wk
}

// connect opens a stream to a producer, leaving the one before.
func (wk *worker) connect(p *producer) {
	wk.disconnect()
	w := wk.w
	w.last++
	wk.conn, wk.to = w.last, p
	p.step(delivery.WorkerConnected{Conn: wk.conn, Worker: delivery.Worker{PodUID: wk.name, PodName: wk.name, Pool: "pool"}})
	wk.step(delivery.Connected{Conn: wk.conn})
	w.run()
}

func (wk *worker) disconnect() {
	if wk.to == nil {
		return
	}
	conn, from := wk.conn, wk.to
	wk.conn, wk.to = 0, nil
	from.step(delivery.WorkerDisconnected{Conn: conn})
	wk.step(delivery.Disconnected{Conn: conn})
}

// kill ends the pod, and its producer hears of it.
func (wk *worker) kill() {
	to := wk.to
	wk.dead = true
	wk.disconnect()
	to.step(delivery.WorkerGone{PodUID: wk.name, Reason: "deleted"})
	wk.w.run()
}

func (wk *worker) step(ev delivery.ConsumerEvent) {
	if wk.dead {
		return
	}
	for _, a := range wk.cons.Step(wk.w.now, ev) {
		wk.do(a)
	}
}

func (wk *worker) do(a delivery.ConsumerAction) {
	w := wk.w
	switch a := a.(type) {
	case delivery.ToController:
		if to := wk.to; to != nil && a.Conn == wk.conn {
			w.later(func() { to.step(delivery.WorkerMessage(a)) })
		}
	case delivery.Reconnect:
		if to := wk.to; to != nil {
			w.later(func() { wk.connect(to) })
		}
	case delivery.StartHandler:
		wk.start(a)
	}
}

// start runs a handler, which must get what was stored first (I-7), and never twice at once (I-9).
func (wk *worker) start(a delivery.StartHandler) {
	job := a.Delivery.Job
	want := jobOf(job.MessageID)
	if !bytes.Equal(job.Payload, want.Payload) || !maps.Equal(job.Headers, want.Headers) {
		wk.w.Errorf("I-7: %s arrives with %d bytes and headers %v", job.MessageID, len(job.Payload), job.Headers)
	}
	if _, ok := wk.running[job.MessageID]; ok {
		wk.w.Errorf("I-9: %s runs twice at once on %s", job.MessageID, wk.name)
	}
	wk.running[job.MessageID] = a.Run
	wk.starts = append(wk.starts, a.Delivery)
	if !wk.hold {
		wk.w.later(func() { wk.done(job.MessageID) })
	}
}

func (wk *worker) done(id string) {
	run, ok := wk.running[id]
	if !ok || wk.dead {
		return
	}
	delete(wk.running, id)
	wk.w.finished[id]++
	wk.step(delivery.HandlerDone{Run: run, Outcome: protocol.Confirmed})
}

// release lets the held handlers finish.
func (wk *worker) release() {
	wk.hold = false
	for id := range maps.Clone(wk.running) {
		wk.done(id)
	}
	wk.w.run()
}

// order is the MessageIDs in the order of their starts.
func (wk *worker) order() (ids []string) {
	for _, d := range wk.starts {
		ids = append(ids, d.Job.MessageID)
	}
	return ids
}
