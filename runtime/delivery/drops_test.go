package delivery

import (
	"testing"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// What is ignored is counted under its reason, and changes nothing (B-280).
func TestB280_WhatIsIgnoredIsCounted(t *testing.T) {
	for reason, provoke := range map[string]func(w *world, a *testWorker, p *testProducer){
		"endpoint-attached-twice": func(w *world, _ *testWorker, p *testProducer) {
			w.step(ProducerAttached{Conn: p.conn, MaxCredits: 1})
		},
		"worker-connected-twice": func(w *world, a *testWorker, _ *testProducer) {
			w.step(WorkerConnected{Conn: a.conn, Worker: Worker{PodUID: "another"}})
		},
		"unknown-connection": func(w *world, _ *testWorker, _ *testProducer) {
			w.step(WorkerMessage{9999, protocol.Heartbeat{}})
		},
		"unknown-endpoint": func(w *world, _ *testWorker, _ *testProducer) {
			w.step(ProducerMessage{Conn: 9999, Message: protocol.StoredAck{}})
		},
		"unknown-message": func(w *world, _ *testWorker, p *testProducer) {
			w.step(ProducerMessage{Conn: p.conn})
		},
		"late-produced": func(w *world, _ *testWorker, p *testProducer) {
			p.send(protocol.Produced{Session: p.session, Token: 1, Job: newJob("1")}, digestOf(newJob("1")))
		},
		"repeated-produced": func(w *world, _ *testWorker, p *testProducer) {
			w.holdApply = true
			p.submit(newJob("new"))
			p.send(protocol.Produced{Session: p.session, Token: p.used, Job: newJob("new")}, digestOf(newJob("new")))
		},
		"settlement-repeated": func(w *world, a *testWorker, _ *testProducer) {
			w.holdApply = true
			a.settles(1, "1", 1, protocol.Confirmed)
			a.settles(1, "1", 1, protocol.Nacked)
		},
	} {
		t.Run(reason, func(t *testing.T) {
			w, a, p := withJobs(t, 3, nil)
			provoke(w, a, p)
			w.run()
			w.equal("counted", w.ctl.Stats().Dropped[reason], 1)
			w.release()
			a.serve(confirmAll)
			w.advance(maxBackoff)
			w.equal("held", w.holds(), 0)
			w.equal("failed", len(w.failed), 0)
		})
	}
	t.Run("unknown-message at the worker", func(t *testing.T) {
		w, a, _ := withJobs(t, 1, nil)
		a.hear(nil)
		w.equal("counted", a.cons.Status(w.now).Dropped["unknown-message"], 1)
	})
	t.Run("unknown-message of a worker", func(t *testing.T) {
		w, a, _ := withJobs(t, 1, nil)
		a.inject(nil)
		w.equal("counted", w.ctl.Stats().Dropped["unknown-message"], 1)
	})
}
