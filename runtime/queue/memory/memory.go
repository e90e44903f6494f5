package memory

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

var errClosed = errors.New("memory queue: closed")

// Options of a volatile queue. The zero value works.
type Options struct {
	// DeduplicationWindow is how long a settled id is remembered at least. Zero means that Compact forgets at once.
	DeduplicationWindow time.Duration
	// Clock is the wall clock; nil means time.Now. It dates rows and ages tombstones, nothing else.
	Clock func() time.Time
	// Random makes the secret; nil means crypto/rand.Reader.
	Random io.Reader
	// LossFile, if set, is a file that outlives the process (an emptyDir outlives a container) and in which the number of
	// unsettled jobs is kept, so that the next process can say how many were lost. It is not synced: it survives the process,
	// not the machine.
	LossFile string
}

// Queue is the volatile back-end. See queue.WorkQueue for its methods.
type Queue struct {
	clock  func() time.Time
	window atomic.Int64

	writing chan struct{} // semaphore of one; holds a token while a writer or a Load is at work

	mu     sync.RWMutex // guards all below; a writer takes it only inside the semaphore
	closed bool
	epoch  queue.Epoch
	cursor int64
	secret queue.Secret
	// workers is replaced, never changed.
	workers []protocol.Incarnation
	rows    *table
	audit   trail
	loss    *lossFile
}

var (
	_ queue.WorkQueue     = (*Queue)(nil)
	_ queue.Deduplicating = (*Queue)(nil)
	_ queue.Immediate     = (*Queue)(nil)
	_ queue.OrphanKeeper  = (*Queue)(nil)
	_ queue.Auditor       = (*Queue)(nil)
)

// New returns an empty queue. It fails only if Options.LossFile cannot be opened or Options.Random fails.
func New(options Options) (*Queue, error) {
	random := options.Random
	if random == nil {
		random = rand.Reader
	}
	secret, err := queue.NewSecret(random)
	if err != nil {
		return nil, err
	}
	q := &Queue{clock: options.Clock, writing: make(chan struct{}, 1), rows: newTable(), secret: secret}
	if q.clock == nil {
		q.clock = time.Now //nolint:forbidigo // the default of the injected clock
	}
	q.SetDeduplicationWindow(options.DeduplicationWindow)
	if options.LossFile != "" {
		loss, err := openLossFile(options.LossFile)
		if err != nil {
			return nil, fmt.Errorf("opening the loss file: %w", err)
		}
		q.loss = loss
	}
	return q, nil
}

// SetDeduplicationWindow implements queue.Deduplicating.
func (q *Queue) SetDeduplicationWindow(window time.Duration) { q.window.Store(int64(window)) }

// Immediate implements queue.Immediate. The loss file is a few bytes in the page cache.
func (q *Queue) Immediate() bool { return true }

// Load implements queue.WorkQueue. Nobody but this process can ask for the owner, so it is not kept.
func (q *Queue) Load(ctx context.Context, _ string, visit func(queue.Row) error) (queue.State, queue.Epoch, error) {
	if err := q.lock(ctx); err != nil {
		return queue.State{}, 0, err
	}
	defer q.unlock()
	for r := range q.rows.records(0) { // who changes them waits for the semaphore, and who reads them need not wait for us
		if r.Status != ledger.Stored {
			continue
		}
		if err := ctx.Err(); err != nil {
			return queue.State{}, 0, err
		}
		if err := visit(r.Row()); err != nil {
			return queue.State{}, 0, err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return queue.State{}, 0, errClosed
	}
	q.epoch++
	return queue.State{
		Cursor: q.cursor, DeadLetters: int64(q.rows.dead), Lost: q.loss.lost(), Secret: q.secret, Workers: slices.Clone(q.workers),
	}, q.epoch, nil
}

// Apply implements queue.WorkQueue.
func (q *Queue) Apply(ctx context.Context, epoch queue.Epoch, batch queue.Batch) (queue.Result, error) {
	checked, err := ledger.Borrow(batch)
	if err != nil {
		return queue.Result{}, err
	}
	var result queue.Result
	err = q.write(ctx, epoch, func(now time.Time) error {
		plan, err := ledger.Apply(q.rows, q.cursor, checked, now)
		if err != nil {
			return err
		}
		for i := range plan.Changes { // without copying them
			change, job := &plan.Changes[i], (*protocol.Job)(nil)
			if change.Job >= 0 {
				job = &batch.Stores[change.Job].Job
			}
			q.rows.put(change, job)
		}
		if workers := checked.Workers(); workers != nil {
			q.workers = workers
		}
		q.cursor, result = plan.Result.Cursor, plan.Result
		plan.Release()
		return nil
	})
	return result, err
}

// Redrive implements queue.WorkQueue.
func (q *Queue) Redrive(ctx context.Context, epoch queue.Epoch, ref queue.JobRef, audit string) (queue.Row, error) {
	var row queue.Row
	err := q.alter(ctx, epoch, queue.AuditRedrive, audit, func(time.Time) (ledger.Change, error) {
		change, err := ledger.Redrive(q.rows, ref)
		row = change.After.Row()
		return change, err
	})
	if err != nil {
		return queue.Row{}, err
	}
	return row, nil
}

// Drop implements queue.WorkQueue.
func (q *Queue) Drop(ctx context.Context, epoch queue.Epoch, ref queue.JobRef, audit string) error {
	return q.alter(ctx, epoch, queue.AuditDrop, audit, func(now time.Time) (ledger.Change, error) {
		return ledger.Drop(q.rows, ref, now)
	})
}

// AcceptOrphan implements queue.OrphanKeeper.
func (q *Queue) AcceptOrphan(ctx context.Context, epoch queue.Epoch, ref queue.JobRef, audit string) error {
	return q.alter(ctx, epoch, queue.AuditAcceptOrphan, audit, func(now time.Time) (ledger.Change, error) {
		return ledger.AcceptOrphan(q.rows, ref, now)
	})
}

// alter is a person's deed on one job, with its audit line.
func (q *Queue) alter(ctx context.Context, epoch queue.Epoch, action, text string, plan func(now time.Time) (ledger.Change, error)) error {
	return q.write(ctx, epoch, func(now time.Time) error {
		change, err := plan(now)
		if err != nil {
			return err
		}
		q.rows.put(&change, nil)
		q.audit.add(queue.AuditLine{At: now, Action: action, JobRef: change.After.JobRef, Text: ledger.CutText(text)})
		return nil
	})
}

// Compact implements queue.WorkQueue.
func (q *Queue) Compact(ctx context.Context, epoch queue.Epoch, limit int) (int, error) {
	removed := 0
	err := q.write(ctx, epoch, func(now time.Time) error {
		removed = q.rows.forget(now, time.Duration(q.window.Load()), limit)
		return nil
	})
	return removed, err
}

// write runs one deed of the writer that holds the epoch, under all locks.
func (q *Queue) write(ctx context.Context, epoch queue.Epoch, deed func(now time.Time) error) error {
	if err := q.lock(ctx); err != nil {
		return err
	}
	defer q.unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errClosed
	}
	if epoch == 0 || epoch != q.epoch {
		return fmt.Errorf("%w: epoch %d, the newest is %d", queue.ErrFenced, epoch, q.epoch)
	}
	if err := deed(q.clock().UTC().Round(0)); err != nil {
		return err
	}
	q.loss.record(q.rows.stored + q.rows.dead)
	return nil
}

func (q *Queue) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case q.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *Queue) unlock() { <-q.writing }

// Close implements queue.WorkQueue. What is unsettled stays counted in the loss file.
func (q *Queue) Close() error {
	q.writing <- struct{}{}
	defer q.unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	q.closed, q.rows = true, newTable()
	return q.loss.close()
}
