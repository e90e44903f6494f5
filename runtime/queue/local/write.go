package local

import (
	"context"
	"time"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// Apply implements queue.WorkQueue. The jobs are encoded here, in the caller's time, so that the commit owns its bytes.
func (q *Queue) Apply(ctx context.Context, epoch queue.Epoch, batch queue.Batch) (queue.Result, error) {
	checked, err := ledger.Check(batch)
	if err != nil {
		return queue.Result{}, err
	}
	jobs, size := make([][]byte, len(batch.Stores)), 0
	for i, request := range batch.Stores {
		jobs[i] = encodeJob(request.Job)
		size += len(jobs[i])
	}
	var result queue.Result
	err = q.write(ctx, epoch, size, func(d *draft, now time.Time) error {
		plan, err := ledger.Apply(d, d.state.cursor, checked, now)
		if err != nil {
			return err
		}
		if err := d.take(plan.Changes, jobs); err != nil {
			return err
		}
		for _, change := range plan.Changes {
			var job []byte
			if change.Job >= 0 {
				job = jobs[change.Job]
			}
			d.apply(change, job)
		}
		if workers := checked.Workers(); workers != nil {
			d.putWorkers(workers)
		}
		d.state.cursor, result = plan.Result.Cursor, plan.Result
		plan.Release()
		return nil
	})
	if err != nil {
		return queue.Result{}, err
	}
	return result, nil
}

// HasRoom implements queue.Roomy.
func (q *Queue) HasRoom(ctx context.Context, epoch queue.Epoch) error {
	return q.write(ctx, epoch, 0, func(d *draft, _ time.Time) error { return d.makeRoom(0, 1) })
}

// Redrive implements queue.WorkQueue.
func (q *Queue) Redrive(ctx context.Context, epoch queue.Epoch, ref queue.JobRef, audit string) (queue.Row, error) {
	change, err := q.alter(ctx, epoch, queue.AuditRedrive, audit, func(d *draft, _ time.Time) (ledger.Change, error) {
		return ledger.Redrive(d, ref)
	})
	if err != nil {
		return queue.Row{}, err
	}
	return change.After.Row(), nil
}

// Drop implements queue.WorkQueue.
func (q *Queue) Drop(ctx context.Context, epoch queue.Epoch, ref queue.JobRef, audit string) error {
	_, err := q.alter(ctx, epoch, queue.AuditDrop, audit, func(d *draft, now time.Time) (ledger.Change, error) {
		return ledger.Drop(d, ref, now)
	})
	return err
}

// AcceptOrphan implements queue.OrphanKeeper.
func (q *Queue) AcceptOrphan(ctx context.Context, epoch queue.Epoch, ref queue.JobRef, audit string) error {
	_, err := q.alter(ctx, epoch, queue.AuditAcceptOrphan, audit, func(d *draft, now time.Time) (ledger.Change, error) {
		return ledger.AcceptOrphan(d, ref, now)
	})
	return err
}

// alter is a person's deed on one job, with its audit line.
func (q *Queue) alter(
	ctx context.Context, epoch queue.Epoch, action, text string, plan func(*draft, time.Time) (ledger.Change, error),
) (ledger.Change, error) {
	var change ledger.Change
	err := q.write(ctx, epoch, 0, func(d *draft, now time.Time) (err error) {
		if change, err = plan(d, now); err != nil {
			return err
		}
		line := queue.AuditLine{At: now, Action: action, JobRef: change.After.JobRef, Text: ledger.CutText(text)}
		if err = d.note(line); err == nil {
			d.apply(change, nil)
		}
		return err
	})
	if err != nil {
		return ledger.Change{}, err
	}
	return change, nil
}

// Compact implements queue.WorkQueue. Ids lie anywhere in their index, so on a full volume many of them may need more pages than
// there are free; a few then make room for more.
func (q *Queue) Compact(ctx context.Context, epoch queue.Epoch, limit int) (int, error) {
	for {
		removed := 0
		err := q.write(ctx, epoch, 0, func(d *draft, now time.Time) (err error) {
			removed, err = d.forget(now, time.Duration(q.window.Load()), limit)
			return err
		})
		if err == nil {
			return removed, nil
		}
		if limit /= 8; limit == 0 || !outOfSpace(err) {
			return 0, err
		}
	}
}
