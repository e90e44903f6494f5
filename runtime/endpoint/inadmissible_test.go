package endpoint_test

import (
	"context"
	"strings"
	"testing"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// wideQueue is read as a version with wider limits would read it: some jobs have headers that this version knows to be impossible.
type wideQueue struct {
	queue.WorkQueue
	odd map[string]map[string]string // by MessageID
}

func (q *wideQueue) ReadJobs(ctx context.Context, seqs []int64) ([]protocol.Job, error) {
	jobs, err := q.WorkQueue.ReadJobs(ctx, seqs)
	for i := range jobs {
		if headers, ok := q.odd[jobs[i].MessageID]; ok {
			jobs[i].Headers = headers
		}
	}
	return jobs, err
}

// B-185, B-200 over a real stream: jobs that no worker of this version can admit run nowhere and end as dead letters, each
// for itself. The jobs of the same frames run, and no worker loses its binding or its stream.
func TestInadmissibleJobsHarmNothingElse(t *testing.T) {
	q := &wideQueue{WorkQueue: memoryQueue(t), odd: map[string]map[string]string{
		"job-00005": {"A": "capitals"},
		"job-00015": {"utf-8": "\xff"},
		"job-00025": {"long": strings.Repeat("x", protocol.MaxHeaderBytes+1)},
		"job-00035": {"": "no key"},
	}}
	const jobs = 40
	f := newFlow(t, q)
	f.start(t)
	submit(t, f, 0, jobs)
	f.stop()
	f.options.Config.MaxAttempts = 2 // 8 failures in a row are too few for the breaker
	f.start(t)
	c := newCrew()
	var workers []*endpoint.Worker
	for _, name := range []string{"w0", "w1"} {
		worker, _ := c.join(t, f, name, succeed)
		workers = append(workers, worker)
	}
	eventually(t, "every odd job is a dead letter", func() bool { return f.stats(t).DeadLetters == int64(len(q.odd)) })
	f.settled(t)
	c.check(t, jobs-len(q.odd))
	eventually(t, "both workers are bound and idle", func() bool {
		idle := func(w *endpoint.Worker) bool { s := w.Status(); return s.Registered && s.Unsettled == 0 }
		return idle(workers[0]) && idle(workers[1]) && len(f.stats(t).Bindings) == 2
	})
	letters, err := f.producer.ListDeadLetters(t.Context(), 0, 100)
	if err != nil || len(letters) != len(q.odd) {
		t.Fatalf("%d dead letters, %v", len(letters), err)
	}
	for _, letter := range letters {
		if q.odd[letter.MessageID] == nil || letter.Attempts != 2 || !strings.Contains(letter.Reason, "refused by the worker") {
			t.Errorf("dead letter %+v", letter)
		}
	}
	refused := uint64(0)
	for _, worker := range workers {
		s := worker.Status()
		refused += s.Dropped["inadmissible"]
		if s.Dropped["malformed-frame"] > 0 {
			t.Errorf("worker %+v", s)
		}
	}
	s := f.stats(t)
	// On a busy machine a worker may ask again for what it was sent, and counts what it refuses again.
	if refused < 2*uint64(len(q.odd)) || s.Dropped["protocol-violation"] > 0 {
		t.Errorf("%d refusals, dropped %v", refused, s.Dropped)
	}
}
