package flowtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// crashes kill the producer at each point of one job's way (contract B.2). The next process submits again whatever the app has not
// marked; whatever the point, the job ends confirmed under its first sequence.
var crashes = []scenario{
	{"before Produced (B-020)", func(w *world) {
		p := w.produce("a", w.open())
		w.source = append(w.source, "x")
		w.survives(p, protocol.StoredNew)
	}},
	{"before Store (B-021)", func(w *world) {
		p := w.produce("a", w.open())
		p.before = failing(1, hasStores, errCrash)
		p.submit("x")
		w.survives(p, protocol.StoredNew)
	}},
	{"after Store, before its result (B-022)", func(w *world) {
		p := w.produce("a", w.open())
		p.after = failing(1, hasStores, errCrash)
		p.submit("x")
		w.survives(p, protocol.AlreadyStored)
	}},
	{"after Stored, before the mark (B-023)", func(w *world) {
		p := w.produce("a", w.open())
		p.patient = true
		p.submit("x")
		w.survives(p, protocol.AlreadyStored)
	}},
	{"after the mark, before StoredAck (B-024)", func(w *world) {
		p := w.produce("a", w.open())
		p.patient = true
		p.submit("x")
		w.marked["x"] = true
		w.survives(p, 0)
	}},
	{"after StoredAck, before Accept (B-025)", func(w *world) {
		p := w.produce("a", w.open())
		p.before = failing(1, hasAccepts, errCrash)
		p.submit("x")
		w.survives(p, 0)
	}},
	{"after Accept, before dispatch (B-026)", func(w *world) {
		p := w.produce("a", w.open())
		p.submit("x")
		w.survives(p, 0)
	}},
	{"after dispatch to a worker that lives (B-027)", func(w *world) {
		p := w.produce("a", w.open())
		wk := w.work("w", p)
		wk.hold = true
		p.submit("x")
		w.equal("running", wk.order(), []string{"x"})
		next := w.restart(p)
		w.advance(patience)
		wk.release()
		w.advance(patience)
		w.confirmed(next, "x")
		w.equal("starts", len(wk.starts), 1)
	}},
	{"before Confirm, with a worker that lives (B-147)", func(w *world) {
		p := w.produce("a", w.open())
		wk := w.work("w", p)
		p.before = failing(1, hasConfirms, errCrash)
		p.submit("x")
		w.advance(time.Second)
		next := w.restart(p)
		w.advance(patience)
		w.confirmed(next, "x")
		w.equal("starts", len(wk.starts), 1)
	}},
	{"after Confirm, before its result (B-029)", func(w *world) {
		p := w.produce("a", w.open())
		early := w.work("early", p)
		p.after = failing(1, hasConfirms, errCrash)
		p.submit("x")
		w.advance(time.Second)
		w.equal("crashed", p.dead, true)
		early.dead = true
		next := w.restart(p)
		late := w.work("late", next)
		w.advance(patience)
		w.confirmed(next, "x")
		w.equal("starts", len(late.starts), 0)
	}},
	{"after everything, and the id comes again within the window and after it (B-030, B-031)", func(w *world) {
		p := w.produce("a", w.open())
		wk := w.work("w", p)
		p.submit("x")
		w.advance(time.Second)
		next := w.restart(p)
		next.resubmit("x")
		w.advance(patience)
		w.equal("verdict", next.stored["x"].Verdict, protocol.AlreadyConfirmed)
		w.equal("starts", len(wk.starts), 1)
		w.clock.Advance(2 * window)
		forgotten, err := next.q.Compact(w.Context(), next.ctl.Stats().Epoch, 10)
		w.equal("forgotten", []any{forgotten, err}, []any{1, nil})
		next.resubmit("x")
		w.advance(patience)
		w.equal("verdict after the window", []any{next.stored["x"].Verdict, next.stored["x"].StoreSeq}, []any{protocol.StoredNew, int64(2)})
		w.equal("starts after the window", len(wk.starts), 2)
	}},
	{"a hundred times in a row (B-033)", testCrashLoop},
	{"with jobs in every state, order restored (B-165, B-053)", testOrderAfterCrash},
	{"limits and trace context survive (B-013, B-285)", testLimits},
}

// survives crashes the producer, and expects of the next one that it finishes job x under sequence 1, asked for it again (with that
// verdict) or not.
func (w *world) survives(p *producer, verdict protocol.StoreVerdict) {
	w.Helper()
	next := w.restart(p)
	late := w.work("late", next)
	w.advance(patience)
	w.confirmed(next, "x")
	w.equal("verdict", next.stored["x"].Verdict, verdict)
	w.equal("starts", late.order(), []string{"x"})
	w.equal("failures", len(next.failed)+len(p.failed), 0)
	again := w.restart(next)
	w.equal("rows after everything is confirmed", again.ctl.Stats().BacklogJobs, 0)
	w.equal("cursor after everything is confirmed", again.ctl.Stats().Cursor, int64(1))
}

func testCrashLoop(w *world) {
	const rounds, each = 100, 3
	p := w.produce("a", w.open())
	w.work("w", p)
	var all []string
	epoch := p.ctl.Stats().Epoch
	for round := range rounds {
		var ids []string
		for i := range each {
			ids = append(ids, fmt.Sprintf("round-%d-%d", round, i))
		}
		all = append(all, ids...)
		switch round % 4 {
		case 0:
			p.before = failing(1, hasStores, errCrash)
		case 1:
			p.after = failing(1, hasStores, errCrash)
		case 2:
			p.before = failing(1, hasConfirms, errCrash)
		}
		p.submit(ids...)
		w.advance(200 * time.Millisecond)
		p = w.restart(p)
		if e := p.ctl.Stats().Epoch; e <= epoch {
			w.Fatalf("epoch %d after %d in round %d", e, epoch, round)
		} else {
			epoch = e
		}
	}
	w.advance(2 * patience)
	w.confirmed(p, all...)
	for id, n := range w.finished {
		if n > 1 {
			w.Errorf("%s ran %d times, although its worker lives", id, n)
		}
	}
}

// Holes are normal: of nine jobs some are confirmed, some are held and some wait. The next process serves the rest in their order.
func testOrderAfterCrash(w *world) {
	p := w.produce("a", w.open())
	p.submit(numbered(4)...)
	wk := w.work("w", p)
	w.advance(time.Second)
	wk.hold = true
	p.submit("5", "6")
	w.advance(time.Second)
	w.work("idle", p).kill()
	wk.kill()
	p.submit("7", "8", "9")
	next := w.restart(p)
	late := w.work("late", next)
	w.advance(patience)
	w.confirmed(next, numbered(9)...)
	// 5 and 6 were started and count a try; the queue keeps that, and their place.
	w.equal("order", late.order(), []string{"5", "6", "7", "8", "9"})
	w.equal("attempts", []int{late.starts[0].Attempt, late.starts[2].Attempt}, []int{2, 1})
	w.equal("told again", late.starts[0].Redelivered, true)
	again := w.restart(next)
	w.equal("rows", again.ctl.Stats().BacklogJobs, 0)
	w.equal("cursor", again.ctl.Stats().Cursor, int64(9))
}

func testLimits(w *world) {
	p := w.produce("a", w.open())
	longest := "[65536]" + strings.Repeat("m", protocol.MaxIDBytes-len("[65536]"))
	ids := []string{longest, "plain", "ünïcødé €"}
	p.submit(ids...)
	next := w.restart(p)
	wk := w.work("w", next)
	w.advance(patience)
	w.confirmed(next, ids...) // start checks payload and headers
	w.equal("starts", len(wk.starts), 3)
	w.equal("longest first", []int{len(wk.starts[0].Job.MessageID), len(wk.starts[0].Job.Payload)}, []int{protocol.MaxIDBytes, maxPayload})
	if !slices.Equal(wk.order(), ids) {
		w.Errorf("order %v", wk.order())
	}
}
