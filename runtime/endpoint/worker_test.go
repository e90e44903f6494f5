package endpoint_test

import (
	"context"
	"strings"
	"testing"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// A drain hands unstarted jobs back, lets running ones finish, and can be taken back (B-172).
func TestDrainAndUncordon(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.start(t)
	c := newCrew()
	started, finish := make(chan struct{}, 100), make(chan struct{})
	worker, _ := c.join(t, f, "w0", func(context.Context, protocol.Delivery) endpoint.Result {
		started <- struct{}{}
		<-finish
		return endpoint.Result{Outcome: protocol.Confirmed}
	})
	submit(t, f, 0, 30)
	<-started
	if cordoned, status := worker.CordonIfIdle(t.Context()); cordoned || status.Running == 0 {
		t.Errorf("a busy worker was cordoned: %v", status)
	}
	worker.StartDrain()
	drained := worker.Drained()
	eventually(t, "unstarted jobs went back", func() bool { return worker.Status().Buffered == 0 })
	select {
	case <-drained:
		t.Error("drained while jobs run")
	default:
	}
	close(finish)
	<-drained
	if s := worker.Status(); s.Running != 0 || s.Unsettled != 0 || !s.Drained {
		t.Errorf("after the drain: %+v", s)
	}
	n := c.finished()
	if n == 0 || n == 30 {
		t.Errorf("%d jobs finished before the drain was over", n)
	}
	worker.Uncordon()
	f.settled(t)
	c.check(t, 30)
	if n := c.repeats(); n != 0 {
		t.Errorf("%d jobs ran twice", n)
	}
	eventually(t, "the worker knows that all is settled, and is cordoned", func() bool {
		cordoned, status := worker.CordonIfIdle(t.Context())
		return cordoned && status.Cordoned
	})
}

// A panic fails the attempt, not the worker (B-181).
func TestPanicIsANack(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.start(t)
	c := newCrew()
	first := true
	c.join(t, f, "w0", func(_ context.Context, d protocol.Delivery) endpoint.Result {
		if d.Attempt == 1 && first {
			first = false
			panic("boom")
		}
		return endpoint.Result{Outcome: protocol.Confirmed}
	})
	submit(t, f, 0, 1)
	f.settled(t)
	if s := f.stats(t); s.Nacked != 1 || s.Confirmed != 1 {
		t.Errorf("%d nacked, %d confirmed", s.Nacked, s.Confirmed)
	}
}

// A result that a handler may not give is a failure.
func TestNonsenseResultIsANack(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.start(t)
	c := newCrew()
	c.join(t, f, "w0", func(_ context.Context, d protocol.Delivery) endpoint.Result {
		switch d.Attempt {
		case 1:
			return endpoint.Result{}
		case 2:
			return endpoint.Result{Outcome: 99}
		}
		return endpoint.Result{Outcome: protocol.Confirmed}
	})
	submit(t, f, 0, 1)
	f.settled(t)
	if s := f.stats(t); s.Nacked != 2 || s.Confirmed != 1 {
		t.Errorf("%d nacked, %d confirmed", s.Nacked, s.Confirmed)
	}
}

func TestDigestIgnoresWhatDiffersFromTryToTry(t *testing.T) {
	job := jobNamed("id")
	with := func(key, value string) protocol.Job {
		out := jobNamed("id")
		out.Headers[key] = value
		return out
	}
	for key, same := range map[string]bool{"traceparent": true, "tracestate": true, "ce-time": true, "ce-type": false, "content-type": false} {
		if got := endpoint.Digest(job) == endpoint.Digest(with(key, "other")); got != same {
			t.Errorf("%s: same %v, want %v", key, got, same)
		}
	}
	other := jobNamed("id")
	other.Payload = []byte(strings.ToUpper(string(other.Payload)))
	if endpoint.Digest(job) == endpoint.Digest(other) {
		t.Error("the payload does not count")
	}
	if endpoint.Digest(protocol.Job{Headers: map[string]string{"a": "bc"}}) == endpoint.Digest(protocol.Job{Headers: map[string]string{"ab": "c"}}) {
		t.Error("two lists of headers read the same")
	}
}
