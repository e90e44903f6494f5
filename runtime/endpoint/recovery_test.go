package endpoint_test

import (
	"errors"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/queue"
)

// B-237, G-163: a person's word brings a failed flow back in the same process, under a higher epoch. Workers come back by themselves.
func TestB237_RecoverBeginsAnew(t *testing.T) {
	q := &faultyQueue{WorkQueue: memoryQueue(t)}
	f := newFlow(t, q)
	failures := make(chan delivery.Failed, 10)
	f.options.OnFailed = func(failed delivery.Failed) { failures <- failed }
	f.start(t)
	c := newCrew()
	c.join(t, f, "w0", succeed)
	submit(t, f, 0, 10)
	f.settled(t)
	f.producer.Recover() // nothing to recover from
	epoch := f.stats(t).Epoch

	q.set(queue.ErrConflict, nil)
	job := jobNamed("conflict")
	if _, err := f.producer.Submit(t.Context(), job, endpoint.Digest(job)); !errors.Is(err, endpoint.ErrUnavailable) {
		t.Errorf("submitting: %v", err)
	}
	<-failures
	if s := f.stats(t); s.Phase != delivery.PhaseFailed || s.Failures[delivery.StageStore] != 1 || s.Epoch != epoch {
		t.Errorf("phase %s, failures %v, epoch %d after %d", s.Phase, s.Failures, s.Epoch, epoch)
	}
	q.set(nil, nil)
	f.producer.Recover()
	submit(t, f, 10, 10)
	f.settled(t)
	c.check(t, 20)
	if s := f.stats(t); s.Failure != nil || s.Epoch <= epoch || s.Failures[delivery.StageStore] != 1 || len(failures) > 0 {
		t.Errorf("failure %v, epoch %d after %d, %v", s.Failure, s.Epoch, epoch, s.Failures)
	}
}

// Each stage of a terminal failure, as the queue causes it: one failure, one word (G-160, G-161, B-234).
func TestB234_EveryStageFailsOnce(t *testing.T) {
	cases := []struct {
		stage delivery.Stage
		cause error
		load  bool
		hits  func(queue.Batch) bool
	}{
		{delivery.StageLoad, queue.ErrUnsupportedFormat, true, nil},
		{delivery.StageLoad, queue.ErrConflict, true, nil},
		{delivery.StageStore, queue.ErrConflict, false, func(b queue.Batch) bool { return len(b.Stores) > 0 }},
		{delivery.StageStore, queue.ErrFenced, false, func(b queue.Batch) bool { return len(b.Stores) > 0 }},
		{delivery.StageAccept, queue.ErrFenced, false, func(b queue.Batch) bool { return len(b.Stores) == 0 && len(b.Accepts) > 0 }},
		{delivery.StageConfirm, queue.ErrFenced, false, func(b queue.Batch) bool {
			return len(b.Stores)+len(b.Accepts) == 0 && len(b.Confirms) > 0
		}},
	}
	for _, tc := range cases {
		t.Run(string(tc.stage)+" "+tc.cause.Error(), func(t *testing.T) {
			q := &faultyQueue{WorkQueue: memoryQueue(t), hits: tc.hits}
			f := newFlow(t, q)
			failures := make(chan delivery.Failed, 10)
			f.options.OnFailed = func(failed delivery.Failed) { failures <- failed }
			if tc.load {
				q.set(nil, tc.cause)
			} else {
				q.set(tc.cause, nil)
			}
			f.start(t)
			c := newCrew()
			c.join(t, f, "w0", succeed)
			job := jobNamed("job")
			// An acceptance could share a batch with the confirmation, which would then count as its stage.
			if receipt, err := f.producer.Submit(t.Context(), job, endpoint.Digest(job)); err == nil && tc.stage != delivery.StageConfirm {
				receipt.Acknowledge()
			}
			select {
			case failed := <-failures:
				if failed.Stage != tc.stage || !errors.Is(failed.Cause, tc.cause) {
					t.Errorf("failed with %v", failed)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("nothing failed")
			}
			if s := f.stats(t); s.Failures[tc.stage] != 1 || len(s.Failures) != 1 || len(failures) > 0 {
				t.Errorf("failures %v, %d more", s.Failures, len(failures))
			}
		})
	}
}

// A process that starts after a terminal failure of the one before loads nothing until a person says so.
func TestHaltedProducerLoadsNothing(t *testing.T) {
	q := &faultyQueue{WorkQueue: memoryQueue(t)}
	f := newFlow(t, q)
	f.options.OnFailed = func(delivery.Failed) { t.Error("an old failure is told again") }
	f.options.Halted = &delivery.Failed{Stage: delivery.StageStore, Cause: queue.ErrFenced}
	f.start(t)
	job := jobNamed("job-00000")
	if _, err := f.producer.Submit(t.Context(), job, endpoint.Digest(job)); !errors.Is(err, endpoint.ErrUnavailable) {
		t.Errorf("submitting: %v", err)
	}
	c := newCrew()
	worker, _ := c.join(t, f, "w0", succeed)
	eventually(t, "the worker is told why it has no binding", func() bool { return worker.Status().LastRefusal != "" })
	if s := f.stats(t); s.Epoch != 0 || s.Failure == nil || s.Phase != delivery.PhaseFailed || len(s.Failures) != 0 {
		t.Errorf("epoch %d, failure %v, phase %s, counted %v", s.Epoch, s.Failure, s.Phase, s.Failures)
	}
	f.producer.Recover()
	submit(t, f, 0, 5)
	f.settled(t)
	c.check(t, 5)
}

// Whoever changes the nonce between the start of a process and that of its flow is heard.
func TestRecoverBeforeTheStartCounts(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.options.Halted = &delivery.Failed{Stage: delivery.StageStore, Cause: queue.ErrFenced}
	f.prepared = func(p *endpoint.Producer) { p.Recover() }
	f.start(t)
	submit(t, f, 0, 1)
}

// B-060, G-X16: what was stored and never accepted is counted, listed and accepted by a person; nothing else removes it.
func TestB060_OrphansAreCountedAndAccepted(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.options.OrphanAge, f.options.OrphansEvery, f.options.CompactEvery = time.Nanosecond, 10*time.Millisecond, 10*time.Millisecond
	f.start(t)
	c := newCrew()
	c.join(t, f, "w0", succeed)
	submit(t, f, 0, 3)
	job := jobNamed("orphan")
	if _, err := f.producer.Submit(t.Context(), job, endpoint.Digest(job)); err != nil {
		t.Fatal(err)
	}
	f.settled(t)
	eventually(t, "the orphan is counted", func() bool { return f.stats(t).Orphans == 1 })
	orphans, err := f.producer.ListOrphans(t.Context(), 0, 10)
	if err != nil || len(orphans) != 1 || orphans[0].MessageID != "orphan" || orphans[0].Status != queue.StatusConfirmed {
		t.Fatalf("orphans %v, %v", orphans, err)
	}
	if err := f.producer.AcceptOrphan(t.Context(), orphans[0].JobRef, "by alice: its app is gone"); err != nil {
		t.Fatal(err)
	}
	if err := f.producer.AcceptOrphan(t.Context(), orphans[0].JobRef, "again"); !errors.Is(err, endpoint.ErrNotFound) {
		t.Errorf("accepting twice: %v", err)
	}
	eventually(t, "no orphan is left", func() bool { return f.stats(t).Orphans == 0 })
	lines, err := f.producer.ListAudit(t.Context(), 0, 10)
	if err != nil || len(lines) != 1 || lines[0].Action != queue.AuditAcceptOrphan || lines[0].Text != "by alice: its app is gone" {
		t.Errorf("audit %v, %v", lines, err)
	}
}
