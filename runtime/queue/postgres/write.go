package postgres

import (
	"context"
	"time"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// Apply implements queue.WorkQueue. The jobs are copied here, in the caller's time, so that the transaction owns its bytes.
func (q *Queue) Apply(ctx context.Context, epoch queue.Epoch, batch queue.Batch) (queue.Result, error) {
	checked, err := ledger.Check(batch)
	if err != nil {
		return queue.Result{}, err
	}
	op := &operation{Ctx: ctx, Epoch: epoch, Deed: deed{refs: refsOf(batch), foreseen: true}}
	bodies := make([]body, len(batch.Stores))
	for i, request := range batch.Stores {
		bodies[i] = bodyOf(request.Job)
		op.Bytes += len(bodies[i].headers) + len(bodies[i].payload)
		op.Deed.ids = append(op.Deed.ids, request.Job.MessageID)
	}
	var result queue.Result
	op.Deed.do = func(t *transaction, now time.Time) error {
		plan, err := ledger.Apply(t.view, t.flow.cursor, checked, now)
		if err != nil {
			return err
		}
		for _, change := range plan.Changes {
			var b body
			if change.Job >= 0 {
				b = bodies[change.Job]
			}
			t.put(change, b)
		}
		if workers := checked.Workers(); workers != nil {
			t.workers = workers
		}
		t.flow.cursor, result = plan.Result.Cursor, plan.Result
		plan.Release()
		return nil
	}
	if err := q.write(op); err != nil {
		return queue.Result{}, err
	}
	return result, nil
}

// refsOf are all jobs that a batch names by their sequence.
func refsOf(b queue.Batch) []queue.JobRef {
	refs := make([]queue.JobRef, 0, len(b.Accepts)+len(b.Attempts)+len(b.DeadLetters)+len(b.Confirms))
	refs = append(refs, b.Accepts...)
	for _, r := range b.Attempts {
		refs = append(refs, r.JobRef)
	}
	for _, r := range b.DeadLetters {
		refs = append(refs, r.JobRef)
	}
	return append(refs, b.Confirms...)
}

// Redrive implements queue.WorkQueue.
func (q *Queue) Redrive(ctx context.Context, epoch queue.Epoch, ref queue.JobRef, audit string) (queue.Row, error) {
	change, err := q.alter(ctx, epoch, ref, queue.AuditRedrive, audit, func(v ledger.View, _ time.Time) (ledger.Change, error) {
		return ledger.Redrive(v, ref)
	})
	if err != nil {
		return queue.Row{}, err
	}
	return change.After.Row(), nil
}

// Drop implements queue.WorkQueue.
func (q *Queue) Drop(ctx context.Context, epoch queue.Epoch, ref queue.JobRef, audit string) error {
	_, err := q.alter(ctx, epoch, ref, queue.AuditDrop, audit, func(v ledger.View, now time.Time) (ledger.Change, error) {
		return ledger.Drop(v, ref, now)
	})
	return err
}

// AcceptOrphan implements queue.OrphanKeeper.
func (q *Queue) AcceptOrphan(ctx context.Context, epoch queue.Epoch, ref queue.JobRef, audit string) error {
	_, err := q.alter(ctx, epoch, ref, queue.AuditAcceptOrphan, audit, func(v ledger.View, now time.Time) (ledger.Change, error) {
		return ledger.AcceptOrphan(v, ref, now)
	})
	return err
}

// alter is a person's deed on one job, with its audit line.
func (q *Queue) alter(
	ctx context.Context, epoch queue.Epoch, ref queue.JobRef, action, text string, plan func(ledger.View, time.Time) (ledger.Change, error),
) (ledger.Change, error) {
	var change ledger.Change
	do := func(t *transaction, now time.Time) (err error) {
		if change, err = plan(t.view, now); err != nil {
			return err
		}
		t.put(change, body{})
		t.note(queue.AuditLine{At: now, Action: action, JobRef: change.After.JobRef, Text: ledger.CutText(text)})
		return nil
	}
	if err := q.write(&operation{Ctx: ctx, Epoch: epoch, Deed: deed{ids: []string{ref.MessageID}, do: do}}); err != nil {
		return ledger.Change{}, err
	}
	return change, nil
}

// Compact implements queue.WorkQueue.
func (q *Queue) Compact(ctx context.Context, epoch queue.Epoch, limit int) (int, error) {
	var done *transaction
	do := func(t *transaction, now time.Time) error {
		done = t
		if limit > 0 {
			t.forget = &forgetting{until: now.Add(-time.Duration(q.window.Load())).UnixNano(), limit: limit}
		}
		return nil
	}
	if err := q.write(&operation{Ctx: ctx, Epoch: epoch, Alone: true, Deed: deed{do: do}}); err != nil {
		return 0, err
	}
	return done.forgotten, nil
}
