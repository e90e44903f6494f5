package flowtest

import (
	"context"
	"errors"
	"slices"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

var errFlaky = errors.New("flaky")

// producer is one process beside the queue: a Controller, and the app that submits through it.
type producer struct {
	w    *world
	name string
	q    queue.WorkQueue
	ctl  *delivery.Controller
	dead bool
	// patient keeps the app from saying StoredAck, and marks nothing.
	patient bool
	// before fails a write before it happens, after makes one that happened look failed. crash ends the process instead.
	before, after func(queue.Batch) error
	loadErr       error

	conn    delivery.ConnID
	session string
	used    uint64
	upTo    uint64
	open    map[uint64]string // tokens in use
	stored  map[string]protocol.Stored
	notices []string
	failed  []delivery.Failed
	loads   int
}

// errCrash tells the host that the process ended in the middle of an operation: nobody hears its result.
var errCrash = errors.New("crash")

func (w *world) produce(name string, q queue.WorkQueue) *producer {
	w.Helper()
	w.last++
	p := &producer{w: w, name: name, q: q, conn: w.last, open: map[uint64]string{}, stored: map[string]protocol.Stored{}}
	cfg := delivery.DefaultControllerConfig()
	cfg.DeliveryConfirmation, cfg.MaxPayloadBytes = true, maxPayload
	p.ctl = delivery.NewController(cfg, &w.random)
	w.producers = append(w.producers, p)
	p.step(delivery.Start{})
	p.step(delivery.ProducerAttached{Conn: p.conn, MaxCredits: 4, Notify: true})
	w.run()
	return p
}

// crash ends the process where it stands.
func (p *producer) crash() {
	p.dead = true
	for _, wk := range p.w.workers {
		if wk.to == p {
			wk.disconnect()
		}
	}
}

func (p *producer) step(ev delivery.Event) {
	if p.dead {
		return
	}
	for _, a := range p.ctl.Step(p.w.now, ev) {
		p.do(a)
	}
}

func (p *producer) do(a delivery.Action) {
	w, ctx := p.w, context.Background()
	switch a := a.(type) {
	case delivery.LoadQueue:
		p.loads++
		ev := delivery.Loaded{Op: a.Op, Err: p.loadErr}
		if ev.Err == nil {
			ev.State, ev.Epoch, ev.Err = p.q.Load(ctx, p.name, func(r queue.Row) error { ev.Rows = append(ev.Rows, r); return nil })
		}
		w.later(func() { p.step(ev) })
	case delivery.ApplyBatch:
		w.later(func() { p.apply(ctx, a) })
	case delivery.ReadJobs:
		w.later(func() {
			jobs, err := p.q.ReadJobs(ctx, a.Seqs)
			p.step(delivery.JobsRead{Op: a.Op, Jobs: jobs, Err: err})
		})
	case delivery.ToWorker:
		w.later(func() { w.toWorker(p, a) })
	case delivery.CloseWorker:
		w.later(func() { w.closeWorker(a.Conn) })
	case delivery.ToProducer:
		w.later(func() { p.receive(a.Message) })
	case delivery.ResolveClaims:
		w.later(func() { p.resolve(ctx, a) })
	case delivery.Failed:
		p.failed = append(p.failed, a)
	}
}

// resolve finds out what became of claimed jobs that the Controller does not hold.
func (p *producer) resolve(ctx context.Context, a delivery.ResolveClaims) {
	ev := delivery.ClaimsResolved{Epoch: a.Epoch, PodUID: a.PodUID, BindingID: a.BindingID}
	for _, ref := range a.Refs {
		state, found, err := p.q.Lookup(ctx, ref.MessageID)
		known := found && state.StoreSeq == ref.StoreSeq
		if err != nil || known && state.Status == queue.StatusStored {
			continue
		}
		if known && state.Status == queue.StatusDeadLettered {
			if _, err := p.q.Apply(ctx, a.Epoch, queue.Batch{Confirms: []queue.JobRef{ref}}); err != nil {
				continue
			}
			ev.Confirmed = append(ev.Confirmed, ref)
		}
		if known && state.Status == queue.StatusDropped {
			ev.Dropped = append(ev.Dropped, ref)
		}
		ev.Ended = append(ev.Ended, ref)
	}
	p.step(ev)
}

func (p *producer) apply(ctx context.Context, a delivery.ApplyBatch) {
	if p.dead {
		return
	}
	ev := delivery.Applied{Op: a.Op}
	if p.before != nil {
		ev.Err = p.before(a.Batch)
	}
	if ev.Err == nil {
		ev.Result, ev.Err = p.q.Apply(ctx, a.Epoch, a.Batch)
		if ev.Err == nil && p.after != nil {
			ev.Err = p.after(a.Batch)
		}
	}
	if errors.Is(ev.Err, errCrash) {
		p.crash()
		return
	}
	p.step(ev)
}

// --- the app ---------------------------------------------------------------------------------------------------------

// submit offers ids; the app repeats each under every new session until it is marked.
func (p *producer) submit(ids ...string) {
	p.w.Helper()
	p.w.source = append(p.w.source, ids...)
	p.pump()
	p.w.run()
}

// resubmit offers ids again that are marked already.
func (p *producer) resubmit(ids ...string) {
	for _, id := range ids {
		delete(p.w.marked, id)
		delete(p.stored, id)
	}
	p.submit()
}

func (p *producer) pump() {
	for _, id := range p.w.source {
		if p.used >= p.upTo {
			return
		}
		if p.w.marked[id] || p.stored[id].StoreSeq > 0 || slices.Contains(values(p.open), id) {
			continue
		}
		p.used++
		p.open[p.used] = id
		job := jobOf(id)
		p.say(delivery.ProducerMessage{Digest: digestOf(job), Message: protocol.Produced{Session: p.session, Token: p.used, Job: job}})
	}
}

func (p *producer) say(ev delivery.ProducerMessage) {
	ev.Conn = p.conn
	p.w.later(func() { p.step(ev) })
}

func (p *producer) receive(m protocol.ToProducer) {
	if p.dead {
		return
	}
	switch m := m.(type) {
	case protocol.RequestNext:
		if m.Session != p.session {
			p.session, p.used, p.upTo = m.Session, 0, 0
			clear(p.open)
		}
		p.upTo = max(p.upTo, m.UpTo)
		p.pump()
	case protocol.Stored:
		p.stored[m.MessageID] = m
		if p.patient {
			return
		}
		p.w.marked[m.MessageID] = true
		delete(p.open, m.Token)
		p.say(delivery.ProducerMessage{Message: protocol.StoredAck{Session: m.Session, Token: m.Token, MessageID: m.MessageID}})
		p.pump()
	case protocol.DeliveryConfirmed:
		p.notices = append(p.notices, m.MessageID)
	}
}

func values(m map[uint64]string) (ids []string) {
	for _, id := range m {
		ids = append(ids, id)
	}
	return ids
}

func hasStores(b queue.Batch) bool   { return len(b.Stores) > 0 }
func hasAccepts(b queue.Batch) bool  { return len(b.Accepts) > 0 }
func hasConfirms(b queue.Batch) bool { return len(b.Confirms) > 0 }

// failing answers the next n writes that match with err.
func failing(n int, match func(queue.Batch) bool, err error) func(queue.Batch) error {
	return func(b queue.Batch) error {
		if n == 0 || !match(b) {
			return nil
		}
		n--
		return err
	}
}

const forEver = -1
