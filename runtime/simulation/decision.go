package simulation

import (
	"errors"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/queue"
)

// decision is what a person decided about a dead letter, or a compaction of the host: an operation outside the machine's lane. The
// host carries it out as runtime/endpoint does: under the epoch that it began with, until the queue gives a definite answer.
type decision struct {
	p     *producer
	epoch queue.Epoch
	ref   queue.JobRef
	// commit does it once; becomes is the job's status when it has happened.
	commit  func(d *decision) error
	becomes string
	event   func(d *decision) delivery.Event
	row     queue.Row
	doubt   bool // an earlier try may have happened
	done    bool
}

// decide begins a decision about some dead letter at the active producer.
func (w *flow) decide(f Fault) {
	p := w.active()
	l := w.ledger.anyDead()
	if !p.serves() || p.epoch == 0 || l == nil || p.deciding[l.ref] {
		return
	}
	if _, held := p.machine.Holds(l.ref); held {
		w.count(DecisionTooEarly) // the controller does not know yet that its dead letter is written, and may write it again
		return
	}
	d := &decision{p: p, epoch: p.epoch, ref: l.ref}
	p.deciding[d.ref] = true
	switch f {
	case Redriven:
		d.becomes = queue.StatusStored
		d.commit = func(d *decision) error {
			row, err := w.store.redrive(d.epoch, d.ref)
			if err == nil {
				d.row = row // a try beside this one may find nothing any more
				w.count(Redriven)
				w.note("queue", "a person re-drives %v", d.ref)
				w.ledger.redriven(w.ledger.bySeq[d.ref.StoreSeq])
			}
			return err
		}
		d.event = func(d *decision) delivery.Event { return delivery.Redriven{Epoch: d.epoch, Row: d.row} }
	default:
		d.becomes = queue.StatusDropped
		d.commit = func(d *decision) error {
			err := w.store.drop(d.epoch, d.ref)
			if err == nil {
				w.count(DeadLetterDropped)
				w.note("queue", "a person drops %v", d.ref)
				w.ledger.dropped(w.ledger.bySeq[d.ref.StoreSeq])
			}
			return err
		}
		d.event = func(d *decision) delivery.Event { return delivery.Dropped{Epoch: d.epoch, Ref: d.ref} }
	}
	d.try()
}

func (d *decision) try() {
	w := d.p.w
	if d.done {
		return
	}
	d.p.run(w.planOperation(false), func() error { return d.commit(d) }, d.answered)
}

// answered is runtime/endpoint's insist.
func (d *decision) answered(err error) {
	w := d.p.w
	switch {
	case d.done:
		return
	case errors.Is(err, queue.ErrFenced):
		d.end()
		return
	case errors.Is(err, queue.ErrNotFound):
		d.end()
		row, status := w.store.lookup(d.ref)
		if !d.doubt || status != d.becomes && (status != "" || d.becomes != queue.StatusDropped) {
			return
		}
		d.row = row
	case err != nil:
		if !d.doubt {
			w.count(DecisionInDoubt)
		}
		d.doubt = true
		w.plan(100*time.Millisecond+w.upTo(time.Second), func() { d.p.receive(d.try) })
		return
	}
	d.end()
	d.p.take(d.event(d))
}

func (d *decision) end() {
	d.done = true
	delete(d.p.deciding, d.ref)
}

// compact forgets tombstones that are older than the deduplication window.
func (w *flow) compact() {
	p := w.active()
	if !p.serves() || p.epoch == 0 {
		return
	}
	epoch := p.epoch
	p.run(w.planOperation(false), func() error {
		forgotten, err := w.store.compact(epoch, window)
		for _, ref := range forgotten {
			w.count(Compacted)
			w.ledger.forgotten(ref)
		}
		return err
	}, func(error) {})
}

// compactions is the host's own rhythm.
func (w *flow) compactions() {
	w.compact()
	if !w.healing {
		w.plan(w.profile.Compact/2+w.upTo(w.profile.Compact), w.compactions)
	}
}

// window is the deduplication window: short, so that runs reach beyond it.
const window = 3 * time.Second
