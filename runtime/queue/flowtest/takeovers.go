package flowtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/queue"
)

// takeovers let a second producer load the queue while the first one believes that it is alone (contract B.4). Both have the queue
// open at once, as two pods have a shared one; a queue of one process is shared by two machines in it.
var takeovers = []scenario{
	{"the old writer is fenced at its next operation, with its stage (B-070, B-071)", func(w *world) {
		for stage, provoke := range map[delivery.Stage]func(old *producer, wk *worker){
			delivery.StageStore:   func(old *producer, _ *worker) { old.submit("late") },
			delivery.StageAccept:  func(old *producer, _ *worker) { old.acknowledge("1") },
			delivery.StageConfirm: func(_ *producer, wk *worker) { wk.release() },
		} {
			w.Run(string(stage), func(t *testing.T) {
				w := w.anew(t)
				q := w.open()
				old := w.produce("old", q)
				old.patient = true
				wk := w.work("w", old)
				wk.hold = true
				old.submit("1")
				next := w.produce("next", w.beside(q))
				before := next.ctl.Stats()
				provoke(old, wk)
				w.advance(time.Second)
				if len(old.failed) != 1 || old.failed[0].Stage != stage || !errors.Is(old.failed[0].Cause, queue.ErrFenced) {
					w.Fatalf("the old one failed with %v", old.failed)
				}
				w.equal("the new one", []any{len(next.failed), next.ctl.Stats().Epoch == before.Epoch}, []any{0, true})
				if n := before.BacklogJobs; n != 1 {
					w.Errorf("the new one found %d jobs", n)
				}
				w.advance(patience)
				if len(old.failed) != 1 {
					w.Errorf("%d failures", len(old.failed))
				}
				wk.connect(next)
				wk.release()
				w.advance(2 * patience)
				if state, _, err := next.q.Lookup(w.Context(), "1"); err != nil || state.Status != queue.StatusConfirmed {
					w.Errorf("job 1 is %v, %v", state, err)
				}
			})
		}
	}},
	{"the old one goes on dispatching, and nothing of it counts (B-072)", func(w *world) {
		q := w.open()
		old := w.produce("old", q)
		old.submit(numbered(4)...)
		next := w.produce("next", w.beside(q))
		// A worker that is bound to the new session drops what it hears of the old one; one that is still bound to the old one runs,
		// and its confirmation is written by nobody.
		w.hold = true
		b := w.work("b", next)
		w.hold = false
		old.before = func(b queue.Batch) error { // what it writes when a worker joins is late, or it would learn there that it is fenced
			if b.Workers != nil && len(b.Confirms) == 0 {
				return errors.New("no answer")
			}
			return nil
		}
		a := w.work("a", old)
		w.equal("the old one dispatched", len(a.starts), 4)
		w.advance(patience)
		w.equal("fenced", []any{len(old.failed), len(next.failed)}, []any{1, 0})
		if confirmed := next.ctl.Stats().Confirmed; confirmed != 0 {
			w.Errorf("%d jobs count as confirmed", confirmed)
		}
		for _, id := range numbered(4) {
			if state, _, _ := next.q.Lookup(w.Context(), id); state.Status != queue.StatusStored {
				w.Errorf("%s is %s", id, state.Status)
			}
		}
		b.release()
		w.advance(patience)
		w.confirmed(next, numbered(4)...)
	}},
	{"producers take over in turns under load (B-074, B-033)", func(w *world) {
		q := w.open()
		p := w.produce("0", q)
		wk := w.work("w", p)
		var all []string
		for turn := range 20 {
			id := fmt.Sprint("turn-", turn)
			all = append(all, id)
			next := w.produce(fmt.Sprint(turn+1), w.beside(q))
			p.submit(id) // to the old one, which does not know yet
			w.advance(time.Second)
			if turn%2 == 0 {
				p.crash()
			}
			wk.connect(next)
			p = next
			p.submit()
			w.advance(time.Second)
		}
		w.advance(2 * patience)
		w.confirmed(p, all...)
	}},
	{"the clocks of the writers do not matter (B-076)", func(w *world) {
		for _, skew := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
			w.Run(skew.String(), func(t *testing.T) {
				w := w.anew(t)
				q := w.open()
				old := w.produce("old", q)
				old.submit("1")
				w.clock.Advance(skew) // what the next process reads
				next := w.produce("next", w.beside(q))
				w.clock.Advance(-skew)
				old.submit("late")
				w.advance(time.Second)
				w.equal("fenced", []any{len(old.failed), len(next.failed)}, []any{1, 0})
				wk := w.work("w", next)
				next.submit()
				w.advance(patience)
				w.confirmed(next, "1", "late")
				w.equal("starts", len(wk.starts), 2)
			})
		}
	}},
}

// acknowledge says the StoredAck that the app kept back.
func (p *producer) acknowledge(id string) {
	p.patient = false
	p.receive(p.stored[id])
	p.w.run()
}
