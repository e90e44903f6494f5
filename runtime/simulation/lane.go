package simulation

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/queue"
)

// queueTimeout is the deadline that the host gives each operation.
const queueTimeout = 5 * time.Second

var (
	errQueueDown = errors.New("queue: connection refused")
	errQueueLost = errors.New("queue: connection lost")
)

// operation is one call of the queue on its way: when it takes effect, if ever, and when the caller hears what.
type operation struct {
	commits bool
	commit  time.Duration // from now
	reply   time.Duration // from now, never before commit unless err is set
	err     error         // what the caller hears instead of the outcome
}

// planOperation draws the fate of one operation.
func (w *flow) planOperation(stuck bool) operation {
	if w.healing {
		return operation{commits: true, commit: time.Millisecond, reply: 2 * time.Millisecond}
	}
	q := w.profile.Queue
	o := operation{commits: true, commit: q.latency/2 + w.upTo(q.latency)}
	o.reply = o.commit + w.upTo(q.latency)
	switch {
	case stuck || w.now < w.outageEnd || w.chance(q.before):
		w.count(QueueFailedBefore)
		o.commits, o.err = false, errQueueDown
	case w.chance(q.after):
		w.count(QueueFailedAfter)
		o.err = errQueueLost
	case w.chance(q.hang):
		w.count(QueueHung)
		o.reply, o.err = queueTimeout, context.DeadlineExceeded
		if o.commits = w.chance(0.6); o.commits {
			o.commit = w.upTo(queueTimeout * 5 / 4)
			if w.chance(0.5) {
				o.commit += w.upTo(q.late)
			}
		}
	case w.chance(q.slow):
		w.count(QueueSlow)
		o.reply = o.commit + w.upTo(queueTimeout*4/5)
	}
	return o
}

// run executes an operation of the producer. do commits, tell reports with the error that the caller sees.
//
// An operation whose caller has given it up, or died, may still take effect, however late; but only before anything else does
// (the rule of queue.WorkQueue). Without that, a write that timed out could undo what a person decided about its job since.
func (p *producer) run(o operation, do func() error, tell func(error)) {
	w := p.w
	outlives := w.chance(0.5) // whether the request had left the process before a crash
	result := o.err
	abandoned, effects := false, uint64(0)
	if o.commits {
		w.lastCommit = max(w.lastCommit, w.now+o.commit)
		w.plan(o.commit, func() {
			switch {
			case p.gone && (!outlives || w.profile.Volatile):
				return
			case (!w.profile.unruly || w.healing) && (p.gone && w.ledger.effects != p.lastEffects || abandoned && w.ledger.effects != effects):
				w.count(GhostTooLate)
				return
			case p.gone || abandoned:
				w.count(QueueCommittedLate)
			}
			if err := do(); o.err == nil {
				result = err
			}
		})
	}
	w.plan(o.reply, func() {
		abandoned, effects = true, w.ledger.effects
		p.receive(func() { tell(result) })
	})
	if !w.healing && w.chance(0.01) {
		w.count(ResultRepeated)
		w.plan(o.reply+w.upTo(200*time.Millisecond), func() { p.receive(func() { tell(result) }) })
	}
}

func (p *producer) load(a delivery.LoadQueue) {
	w := p.w
	var done delivery.Loaded
	p.run(w.planOperation(false), func() error {
		state, epoch, rows, err := w.store.load()
		done = delivery.Loaded{Epoch: epoch, State: state, Rows: rows}
		w.ledger.loaded(done, err)
		return err
	}, func(err error) {
		if err != nil {
			w.count(LoadFailed)
			done = delivery.Loaded{}
		} else {
			p.epoch = max(p.epoch, done.Epoch)
			w.counts.Reloads++
		}
		done.Op, done.Err = a.Op, err
		p.take(done)
	})
}

func (p *producer) apply(a delivery.ApplyBatch) {
	w := p.w
	stuck := slices.ContainsFunc(a.Batch.Confirms, func(r queue.JobRef) bool { return w.stuck[r.MessageID] })
	batch := cloneBatch(a.Batch)
	var result queue.Result
	p.run(w.planOperation(stuck), func() error {
		if !sameBatch(batch, a.Batch) {
			w.violate("action", "%s changed a batch that was in flight", p.name)
		}
		var err error
		result, err = w.store.apply(a.Epoch, batch)
		w.note("queue", "op %d of %s: %v", a.Op, p.name, err)
		w.ledger.applied(p, a.Epoch, batch, result, err)
		return err
	}, func(err error) {
		if err != nil {
			result = queue.Result{}
		}
		p.take(delivery.Applied{Op: a.Op, Result: result, Err: err})
	})
}

func (p *producer) read(a delivery.ReadJobs) {
	w := p.w
	var done delivery.JobsRead
	seqs := slices.Clone(a.Seqs)
	p.run(w.planOperation(false), func() error {
		var err error
		done.Jobs, err = w.store.read(seqs)
		return err
	}, func(err error) {
		if err != nil {
			done.Jobs = nil
		}
		done.Op, done.Err = a.Op, err
		p.take(done)
	})
}

// triedLetter is runtime/endpoint's.
type triedLetter struct {
	epoch queue.Epoch
	ref   queue.JobRef
}

// resolve is runtime/endpoint's: what became of claimed jobs that the controller does not hold. It goes on until it knows of every dead
// letter whether it is confirmed, one try at a time.
func (p *producer) resolve(a delivery.ResolveClaims) {
	if p.resolving {
		p.questions = append(p.questions, a)
		return
	}
	p.resolving = true
	w := p.w
	var letters []queue.JobRef
	var done delivery.ClaimsResolved
	answered := false // one answer a try
	p.run(w.planOperation(false), func() error {
		done = delivery.ClaimsResolved{Epoch: a.Epoch, PodUID: a.PodUID, BindingID: a.BindingID}
		letters = nil
		for _, ref := range a.Refs {
			switch _, status := w.store.lookup(ref); {
			case status == queue.StatusDeadLettered:
				letters = append(letters, ref)
			case p.tried[triedLetter{a.Epoch, ref}] && (status == "" || status == queue.StatusConfirmed):
				done.Ended, done.Confirmed = append(done.Ended, ref), append(done.Confirmed, ref)
			case status != queue.StatusStored:
				done.Ended = append(done.Ended, ref)
				if status == queue.StatusDropped {
					done.Dropped = append(done.Dropped, ref)
				}
			}
		}
		if len(letters) == 0 {
			return nil
		}
		batch := queue.Batch{Confirms: letters}
		result, err := w.store.apply(a.Epoch, batch)
		w.ledger.applied(p, a.Epoch, batch, result, err)
		if err == nil {
			w.counts.LettersClaimed += uint64(len(letters))
			for _, ref := range letters {
				p.tried[triedLetter{a.Epoch, ref}] = true // in case that its answer is lost
			}
			done.Ended, done.Confirmed = append(done.Ended, letters...), append(done.Confirmed, letters...)
		}
		return err
	}, func(err error) {
		if answered {
			return
		}
		answered = true
		p.resolving = false
		if err != nil && !queue.Terminal(err) {
			w.plan(100*time.Millisecond+w.upTo(time.Second), func() { p.receive(func() { p.resolve(a) }) })
		} else {
			for _, ref := range a.Refs {
				delete(p.tried, triedLetter{a.Epoch, ref})
			}
			if err != nil {
				done = delivery.ClaimsResolved{Epoch: a.Epoch, PodUID: a.PodUID, BindingID: a.BindingID}
			}
			p.take(done)
		}
		if len(p.questions) > 0 && !p.resolving {
			next := p.questions[0]
			p.questions = p.questions[1:]
			p.resolve(next)
		}
	})
}

func cloneBatch(b queue.Batch) queue.Batch {
	b.Stores, b.Accepts, b.Attempts = slices.Clone(b.Stores), slices.Clone(b.Accepts), slices.Clone(b.Attempts)
	b.DeadLetters, b.Confirms, b.Workers = slices.Clone(b.DeadLetters), slices.Clone(b.Confirms), slices.Clone(b.Workers)
	return b
}

func sameBatch(a, b queue.Batch) bool {
	return a.Cursor == b.Cursor && slices.Equal(a.Accepts, b.Accepts) && slices.Equal(a.Attempts, b.Attempts) &&
		slices.Equal(a.DeadLetters, b.DeadLetters) && slices.Equal(a.Confirms, b.Confirms) && slices.Equal(a.Workers, b.Workers) &&
		slices.EqualFunc(a.Stores, b.Stores, func(x, y queue.StoreRequest) bool {
			return x.Job.MessageID == y.Job.MessageID && x.Digest == y.Digest
		})
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
