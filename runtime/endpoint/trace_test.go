package endpoint_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// B-285: the trace context of a submission reaches every try of its handler, with the number of the attempt, also on another worker.
func TestB285_TraceAndAttemptTravelAcrossRequeues(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.start(t)
	c := newCrew()
	var mu sync.Mutex
	var tries []string
	failing := func(_ context.Context, d protocol.Delivery) endpoint.Result {
		mu.Lock()
		defer mu.Unlock()
		tries = append(tries, fmt.Sprint(d.Attempt, " ", d.Job.Headers["traceparent"], " ", d.Redelivered))
		if d.Attempt < 3 {
			return endpoint.Result{Outcome: protocol.Nacked, Reason: "not yet"}
		}
		return endpoint.Result{Outcome: protocol.Confirmed}
	}
	c.join(t, f, "w0", failing)
	c.join(t, f, "w1", failing)
	job := jobNamed("traced")
	job.Headers["traceparent"] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	receipt, err := f.producer.Submit(t.Context(), job, endpoint.Digest(job))
	if err != nil {
		t.Fatal(err)
	}
	receipt.Acknowledge()
	f.settled(t)
	mu.Lock()
	defer mu.Unlock()
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	want := fmt.Sprint([]string{"1 " + trace + " false", "2 " + trace + " true", "3 " + trace + " true"})
	if got := fmt.Sprint(tries); got != want {
		t.Errorf("tries %v, want %v", got, want)
	}
	c.check(t, 1)
}
