package endpoint

import (
	"maps"
	"slices"

	"github.com/workpulling/workpulling/runtime/delivery"
)

// Recover begins anew after a terminal failure, with a fresh Controller that loads under the next epoch: the explicit respawn (G-163,
// B-237). Streams of producers go on, workers come back by themselves. It does nothing while the flow has not failed. Before Run it answers
// ProducerOptions.Halted.
func (p *Producer) Recover() {
	p.loop.post(func() {
		if p.incarnation == 0 { // what Run does first is still to come
			p.options.Halted = nil
			return
		}
		if p.failure == nil || p.stopping {
			return
		}
		p.log.Info("starting anew after a terminal failure", "stage", p.failure.Stage)
		p.failure = nil
		p.begin()
	})
}

// begin starts a Controller. What the one before it still has under way concerns nobody any more.
func (p *Producer) begin() {
	p.incarnation++
	p.forgetUnwritten()
	p.said.clear()
	p.began = p.options.Clock.Now()
	p.controller = delivery.NewController(p.config, p.options.Random)
	if p.options.Halted != nil && p.incarnation == 1 {
		p.halt(*p.options.Halted)
		return
	}
	for conn, out := range p.workers { // they have met nobody but the failure
		out.Close()
		delete(p.workers, conn)
	}
	p.step(delivery.Start{})
	p.step(p.intake)
	p.attachDesk()
	for _, conn := range slices.Sorted(maps.Keys(p.producers)) {
		p.step(delivery.ProducerAttached{Conn: conn, MaxCredits: p.options.StreamCredits, Notify: true})
	}
}

// halt takes up a failure of an earlier process, without telling it again.
func (p *Producer) halt(f delivery.Failed) {
	p.failure = &f
	p.log.Info("the flow failed for good before this process started; it waits for spec.recoverNonce to change", "stage", f.Stage, "cause", f.Cause.Error())
}

// failed ends this incarnation: no job is taken or dispatched until Recover.
func (p *Producer) failed(f delivery.Failed) {
	p.failure = &f
	p.failures.add(f.Stage)
	p.log.Error(f.Cause, "reliable delivery failed; no job is taken or dispatched until spec.recoverNonce changes", "stage", f.Stage)
	p.desk.refuseAll(ErrUnavailable)
	p.waiters.refuseAll(ErrUnavailable)
	for conn, out := range p.workers {
		out.Close()
		delete(p.workers, conn)
	}
	if p.options.OnFailed != nil {
		go p.options.OnFailed(f)
	}
}
