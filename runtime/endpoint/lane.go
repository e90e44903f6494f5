package endpoint

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// lane runs operations of the queue beside the loop. The Controller keeps at most one write and one read in flight.
type lane struct {
	base    context.Context //nolint:containedctx // the life of all operations
	cancel  context.CancelFunc
	running sync.WaitGroup
	writes  atomic.Int64
}

func newLane() *lane {
	base, cancel := context.WithCancel(context.Background())
	return &lane{base: base, cancel: cancel}
}

// idle reports whether no write is in flight.
func (l *lane) idle() bool { return l.writes.Load() == 0 }

// end cancels what is in flight and waits for it.
func (l *lane) end() {
	l.cancel()
	l.running.Wait()
}

// operate runs one operation with its deadline, none for 0, and feeds the event that it returns to the Controller.
func (p *Producer) operate(timeout time.Duration, write bool, operation func(context.Context) (delivery.Event, func())) {
	if write {
		p.lane.writes.Add(1)
	}
	incarnation := p.incarnation
	p.lane.running.Go(func() {
		ctx := p.lane.base
		if timeout > 0 {
			limited, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			ctx = limited
		}
		event, before := operation(ctx)
		p.loop.do(func() {
			if write {
				p.lane.writes.Add(-1)
			}
			if p.incarnation != incarnation {
				return
			}
			if before != nil {
				before()
			}
			p.step(event)
		})
	})
}

// errStalled says that a load came to nothing for too long.
var errStalled = errors.New("the queue gives no more rows")

// loadPart is how many rows renew a load's deadline: a long backlog takes long, also at a good pace.
const loadPart = 1000

func (p *Producer) load(a delivery.LoadQueue) {
	p.operate(0, true, func(ctx context.Context) (delivery.Event, func()) {
		patience := 10 * p.operationTimeout()
		ctx, cancel := context.WithCancelCause(ctx)
		stall := time.AfterFunc(patience, func() { cancel(errStalled) })
		defer stall.Stop()
		defer cancel(nil)
		var rows []queue.Row
		state, epoch, err := p.options.Queue.Load(ctx, p.options.Owner, func(row queue.Row) error {
			rows = append(rows, row)
			if len(rows)%loadPart == 0 {
				stall.Reset(patience)
			}
			return ctx.Err()
		})
		if err != nil && errors.Is(context.Cause(ctx), errStalled) {
			err = fmt.Errorf("%w, for %s: %w", errStalled, patience, err)
		}
		return delivery.Loaded{Op: a.Op, Epoch: epoch, State: state, Rows: rows, Err: err}, func() {
			if err != nil {
				return
			}
			p.epoch.Store(uint64(epoch))
			p.lost, p.format = state.Lost, state.Format
			p.ages = ages{}
			for _, row := range rows {
				p.ages.add(row.StoreSeq, row.StoredAt)
			}
		}
	})
}

func (p *Producer) apply(a delivery.ApplyBatch) {
	if queue.IsImmediate(p.options.Queue) {
		p.lane.writes.Add(1)
		p.unwritten = &a
		return
	}
	p.operate(p.operationTimeout(), true, func(ctx context.Context) (delivery.Event, func()) {
		result, err := p.options.Queue.Apply(ctx, a.Epoch, a.Batch)
		return delivery.Applied{Op: a.Op, Result: result, Err: err}, func() { p.noteAges(result) }
	})
}

// applyNow is apply without a goroutine of its own.
func (p *Producer) applyNow() {
	a := p.unwritten
	p.unwritten = nil
	result, err := p.options.Queue.Apply(p.lane.base, a.Epoch, a.Batch)
	p.lane.writes.Add(-1)
	p.noteAges(result)
	p.step(delivery.Applied{Op: a.Op, Result: result, Err: err})
}

// forgetUnwritten drops what a Controller that is over had to write.
func (p *Producer) forgetUnwritten() {
	if p.unwritten != nil {
		p.unwritten = nil
		p.lane.writes.Add(-1)
	}
}

func (p *Producer) noteAges(result queue.Result) {
	now := p.options.Clock.Now()
	for _, stored := range result.Stores {
		if stored.Verdict == protocol.StoredNew {
			p.ages.add(stored.StoreSeq, now)
		}
	}
}

func (p *Producer) read(a delivery.ReadJobs) {
	p.operate(p.operationTimeout(), false, func(ctx context.Context) (delivery.Event, func()) {
		jobs, err := p.options.Queue.ReadJobs(ctx, a.Seqs)
		return delivery.JobsRead{Op: a.Op, Jobs: jobs, Err: err}, nil
	})
}
