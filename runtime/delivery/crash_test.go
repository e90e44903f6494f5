package delivery

import (
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// Each case crashes the producer at one point of the handshake; a new Controller loads the same queue and the producer app
// submits again whatever it has not marked as handed over (contract B.2).
func TestProducerCrashInTheHandshake(t *testing.T) {
	for _, tc := range []struct {
		name     string
		until    func(w *world, p *testProducer)
		resubmit bool
		verdict  protocol.StoreVerdict
		runs     int // how often the job starts after the crash
	}{
		{"B-020 before Produced", func(w *world, p *testProducer) {}, true, protocol.StoredNew, 1},
		{"B-021 before Store", func(w *world, p *testProducer) {
			w.holdApply = true
			p.submit(newJob("x"))
		}, true, protocol.StoredNew, 1},
		{"B-022 before the result of Store", func(w *world, p *testProducer) {
			w.lostReply = func(queue.Batch) error { return errFlaky }
			p.submit(newJob("x"))
			w.lostReply = nil
		}, true, protocol.AlreadyStored, 1},
		{"B-023 after Stored, before the mark", func(w *world, p *testProducer) {
			p.mute = true
			p.submit(newJob("x"))
		}, true, protocol.AlreadyStored, 1},
		{"B-024 after the mark, before StoredAck", func(w *world, p *testProducer) {
			p.mute = true
			p.submit(newJob("x"))
		}, false, 0, 1},
		{"B-025 after StoredAck, before Accept", func(w *world, p *testProducer) {
			w.applyErr = func(b queue.Batch) error {
				if len(b.Accepts) > 0 {
					return errFlaky
				}
				return nil
			}
			p.submit(newJob("x"))
			w.applyErr = nil
		}, false, 0, 1},
		{"B-026 after Accept", func(w *world, p *testProducer) { p.submit(newJob("x")) }, false, 0, 1},
		{"B-029 after Confirm, before its reply", func(w *world, p *testProducer) {
			w.worker("early", nil).serve(confirmAll)
			w.lostReply = func(b queue.Batch) error {
				if len(b.Confirms) > 0 {
					return errFlaky
				}
				return nil
			}
			p.submit(newJob("x"))
			w.lostReply = nil
		}, false, 0, 0},
		{"B-030 after Confirm, submitted again", func(w *world, p *testProducer) {
			w.worker("early", nil).serve(confirmAll)
			p.submit(newJob("x"))
		}, true, protocol.AlreadyConfirmed, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, nil)
			tc.until(w, w.producer(1))
			for _, tw := range w.workers {
				tw.dead = true
			}
			w.holdApply = false
			w.boot(nil)
			p := w.producer(1)
			if tc.resubmit {
				p.submit(newJob("x"))
				w.equal("verdict", p.stored[0].Verdict, tc.verdict)
				w.equal("store sequence", p.stored[0].StoreSeq, 1)
			}
			late := w.worker("late", nil)
			late.serve(confirmAll)
			w.advance(time.Second)
			w.equal("runs", len(late.starts), tc.runs)
			w.equal("failed", len(w.failed), 0)
			state, ok, err := w.queue.Lookup(t.Context(), "x")
			w.equal("in the queue", []any{ok, err, state.Status, state.StoreSeq}, []any{true, nil, queue.StatusConfirmed, 1})
		})
	}
}

func TestB027_SameWorkerNeverRunsTwiceAfterAProducerCrash(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil)
	p := w.producer(1)
	p.submit(newJob("x"))
	w.equal("running", len(a.running), 1)
	w.boot(nil)
	a.connect()
	w.advance(3 * time.Second)
	w.equal("starts", len(a.starts), 1) // the redelivery joined the running handler (start checks I-9 too)
	a.finish("x", protocol.Confirmed)
	w.advance(time.Second)
	w.equal("confirmed", w.ctl.Stats().Confirmed, 1)
	w.equal("starts", len(a.starts), 1)
}

func TestB033_CrashLoop(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil)
	a.serve(confirmAll)
	p := w.producer(8)
	var last queue.Epoch
	for i := range 100 {
		w.submit(p, "job-"+w.rnd.ID()+"-", 3)
		w.advance(200 * time.Millisecond)
		w.boot(nil)
		if e := w.ctl.Stats().Epoch; e <= last {
			t.Fatalf("epoch %d after %d in round %d", e, last, i)
		} else {
			last = e
		}
		p = w.producer(8)
		a.connect()
	}
	w.advance(20 * time.Second)
	w.equal("held", w.holds(), 0)
	w.equal("cursor", w.ctl.Stats().Cursor, 300)
}
