package endpoint_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// rottenQueue has lost the bytes of a job that it still counts among the stored ones.
type rottenQueue struct {
	queue.WorkQueue
	rotten string // a MessageID
	healed atomic.Bool
}

func (q *rottenQueue) ReadJobs(ctx context.Context, seqs []int64) ([]protocol.Job, error) {
	jobs, err := q.WorkQueue.ReadJobs(ctx, seqs)
	for i := range jobs {
		if jobs[i].MessageID == q.rotten && !q.healed.Load() {
			jobs[i] = protocol.Job{}
		}
	}
	return jobs, err
}

// G-161, B-237: a stored job that cannot be read is what no retry heals. The flow fails once with stage Protocol, over
// streams that carry jobs at that time: submitters are told to come back, workers why they have no binding, and what had finished stays
// finished. A person who has mended the row starts it anew, and everything else is delivered.
func TestProtocolFailureEndsTheIncarnationOnce(t *testing.T) {
	q := &rottenQueue{WorkQueue: memoryQueue(t), rotten: "job-00007"}
	f := newFlow(t, q)
	failures := make(chan delivery.Failed, 10)
	f.options.OnFailed = func(failed delivery.Failed) { failures <- failed }
	f.start(t)
	submit(t, f, 0, 20)
	f.stop()
	f.start(t) // the payloads have to be read now

	c := newCrew()
	worker, _ := c.join(t, f, "w0", succeed)
	failed := <-failures
	if failed.Stage != delivery.StageProtocol || !errors.Is(failed.Cause, queue.ErrConflict) {
		t.Errorf("failed with %+v", failed)
	}
	job := jobNamed("job-00020")
	if _, err := f.producer.Submit(t.Context(), job, endpoint.Digest(job)); !errors.Is(err, endpoint.ErrUnavailable) {
		t.Errorf("submitting to a failed flow: %v", err)
	}
	s := f.stats(t)
	if s.Failure == nil || s.Failure.Stage != delivery.StageProtocol || s.Failures[delivery.StageProtocol] != 1 {
		t.Errorf("the figures say %+v, %v", s.Failure, s.Failures)
	}
	eventually(t, "the worker is told why it has no binding", func() bool {
		s := worker.Status()
		return !s.Registered && s.LastRefusal != ""
	})
	if c.finished() > 19 {
		t.Error("the job that cannot be read was run")
	}

	q.healed.Store(true)
	f.producer.Recover()
	submit(t, f, 20, 10)
	f.settled(t)
	c.check(t, 30)
	s = f.stats(t)
	if s.Failure != nil || len(failures) > 0 || s.Failures[delivery.StageProtocol] != 1 {
		t.Errorf("after the recovery: %+v, %v, %d more failures", s.Failure, s.Failures, len(failures))
	}
}
