package flowtest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// lanes make the durable lane fail in the ways of contract B.14, before a write and after one whose answer is lost.
var lanes = []scenario{
	{"a transient error is invisible (B-231)", func(w *world) {
		for _, lost := range []bool{false, true} {
			for name, match := range map[string]func(queue.Batch) bool{"store": hasStores, "accept": hasAccepts, "confirm": hasConfirms} {
				w.Run(fmt.Sprintf("%s, answer lost %t", name, lost), func(t *testing.T) {
					w := w.anew(t)
					p := w.produce("a", w.open())
					wk := w.work("w", p)
					session := p.ctl.Stats().Session
					p.fault(lost, failing(2, match, errFlaky))
					p.submit(numbered(5)...)
					w.advance(patience)
					w.confirmed(p, numbered(5)...)
					w.equal("session", p.ctl.Stats().Session, session)
					w.equal("starts", len(wk.starts), 5)
					w.equal("failures", len(p.failed), 0)
				})
			}
		}
	}},
	{"retries spent on a handshake reload under a new epoch, and no job is lost (B-232, B-025a)", func(w *world) {
		for _, lost := range []bool{false, true} {
			for name, match := range map[string]func(queue.Batch) bool{"store": hasStores, "accept": hasAccepts} {
				w.Run(fmt.Sprintf("%s, answer lost %t", name, lost), func(t *testing.T) {
					w := w.anew(t)
					p := w.produce("a", w.open())
					wk := w.work("w", p)
					before := p.ctl.Stats()
					p.fault(lost, failing(3, match, errFlaky))
					p.submit(numbered(5)...)
					w.advance(2 * patience)
					w.confirmed(p, numbered(5)...)
					after := p.ctl.Stats()
					if after.Session == before.Session || after.Epoch <= before.Epoch {
						w.Errorf("no reload: session %s, epoch %d", after.Session, after.Epoch)
					}
					w.equal("loads", p.loads, 2)
					w.equal("failures", len(p.failed), 0)
					w.equal("bound again", len(after.Bindings), 1)
					w.equal("starts", len(wk.starts), 5)
				})
			}
		}
	}},
	{"a confirm that cannot be written stays and harms nobody (B-233)", func(w *world) {
		p := w.produce("a", w.open())
		wk := w.work("w", p)
		session := p.ctl.Stats().Session
		bad := func(b queue.Batch) bool {
			return slices.ContainsFunc(b.Confirms, func(r queue.JobRef) bool { return r.MessageID == "2" })
		}
		p.before = failing(forEver, bad, errFlaky)
		p.submit(numbered(4)...)
		w.advance(10 * time.Second)
		w.equal("credit withheld", p.ctl.Stats().CreditWithheld, true)
		w.advance(3 * time.Minute)
		st := p.ctl.Stats()
		w.equal("isolated", []any{st.IsolatedConfirms, st.CreditWithheld, st.Session == session}, []any{1, false, true})
		p.before = nil
		w.advance(3 * time.Minute)
		w.confirmed(p, numbered(4)...)
		w.equal("starts", len(wk.starts), 4)
		w.equal("loads", p.loads, 1)
	}},
	{"a back-end that is away for ten minutes costs nothing but time (B-239)", func(w *world) {
		p := w.produce("a", w.open())
		wk := w.work("w", p)
		wk.hold = true
		p.submit(numbered(4)...)
		p.before, p.loadErr = failing(forEver, func(queue.Batch) bool { return true }, errFlaky), errFlaky
		wk.release() // what it holds it finishes
		w.advance(10 * time.Second)
		p.submit("5")
		w.advance(10 * time.Minute)
		w.equal("failures", len(p.failed), 0)
		p.before, p.loadErr = nil, nil
		w.advance(3 * time.Minute)
		w.confirmed(p, numbered(5)...)
		w.equal("starts", len(wk.starts), 5)
	}},
	{"a load that fails is repeated until it does not (B-235)", func(w *world) {
		p := w.produce("a", w.open())
		p.submit("1")
		p.loadErr = errFlaky
		p.before = failing(3, hasStores, errFlaky)
		p.submit("2")
		w.advance(30 * time.Second)
		w.equal("phase", p.ctl.Stats().Phase, delivery.PhaseLoading)
		p.loadErr = nil
		wk := w.work("w", p)
		w.advance(patience)
		w.confirmed(p, "1", "2")
		w.equal("order", wk.order(), []string{"1", "2"})
		w.equal("failures", len(p.failed), 0)
	}},
	{"a contradiction is terminal once, with its stage (B-234)", func(w *world) {
		for stage, match := range map[delivery.Stage]func(queue.Batch) bool{
			delivery.StageStore: hasStores, delivery.StageAccept: hasAccepts, delivery.StageConfirm: hasConfirms,
		} {
			w.Run(string(stage), func(t *testing.T) {
				w := w.anew(t)
				p := w.produce("a", w.open())
				w.work("w", p)
				p.before = failing(forEver, match, fmt.Errorf("wrapped: %w", queue.ErrConflict))
				p.submit("1")
				w.advance(patience)
				if len(p.failed) != 1 || p.failed[0].Stage != stage || !errors.Is(p.failed[0].Cause, queue.ErrConflict) {
					w.Errorf("failed with %v", p.failed)
				}
				// The explicit respawn: another process over the same queue (B-237).
				epoch := p.ctl.Stats().Epoch
				next := w.restart(p)
				w.advance(patience)
				w.confirmed(next, "1")
				if e := next.ctl.Stats().Epoch; e <= epoch {
					w.Errorf("epoch %d after %d", e, epoch)
				}
			})
		}
	}},
	{"notices follow durability and name the stored sequence (B-148, B-149)", func(w *world) {
		p := w.produce("a", w.open())
		p.before = failing(1, hasConfirms, errFlaky)
		w.work("w", p)
		p.submit("1")
		w.equal("notices before the write", len(p.notices), 0)
		w.advance(patience)
		w.equal("notices", p.notices, []string{"1"})
		w.equal("sequence", p.stored["1"].StoreSeq, int64(1))
		w.equal("verdict", p.stored["1"].Verdict, protocol.StoredNew)
	}},
}

// fault makes writes fail before they happen, or lose their answer.
func (p *producer) fault(lost bool, f func(queue.Batch) error) {
	if lost {
		p.after = f
	} else {
		p.before = f
	}
}
