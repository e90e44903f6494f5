package endpoint_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// word is what one waiting caller was told.
type word struct {
	settled endpoint.Settled
	err     error
}

// waiting starts n callers that wait for one job each, and returns their words once all of them wait.
func waiting(t *testing.T, f *flow, n int) chan word {
	t.Helper()
	words := make(chan word, n)
	for i := range n {
		job := jobNamed(string(rune('a' + i)))
		receipt, err := f.producer.Submit(t.Context(), job, endpoint.Digest(job))
		if err != nil {
			t.Fatal(err)
		}
		receipt.Acknowledge()
		go func() {
			settled, err := f.producer.Wait(context.Background(), queue.JobRef{MessageID: job.MessageID, StoreSeq: receipt.StoreSeq})
			words <- word{settled, err}
		}()
	}
	eventually(t, "everybody waits", func() bool { return f.producer.Waiting(t.Context()) == n })
	return words
}

// heard collects n words and makes sure that nobody says more.
func heard(t *testing.T, words chan word, n int) (all []word) {
	t.Helper()
	for range n {
		select {
		case w := <-words:
			all = append(all, w)
		case <-time.After(transporttest.Patience):
			t.Fatalf("%d of %d callers were answered", len(all), n)
		}
	}
	if len(words) > 0 {
		t.Errorf("%d words too many", len(words))
	}
	return all
}

// Every caller that waits for a confirmation is answered when the producer stops.
func TestA008_StopAnswersEveryWaitingCaller(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.options.StopGrace = time.Nanosecond
	f.start(t)
	words := waiting(t, f, 20)
	f.stop()
	for _, w := range heard(t, words, 20) {
		if !errors.Is(w.err, endpoint.ErrUnavailable) {
			t.Errorf("told %v, %v", w.settled, w.err)
		}
	}
	if _, err := f.producer.Wait(t.Context(), queue.JobRef{MessageID: "a", StoreSeq: 1}); !errors.Is(err, endpoint.ErrUnavailable) {
		t.Errorf("waiting at a producer that has stopped: %v", err)
	}
}

// A stop that gives jobs in flight time to end tells their callers how they ended.
func TestA008_StopTellsWhatEndedInItsGrace(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.options.StopGrace = transporttest.Patience
	f.start(t)
	c, begun, release := newCrew(), make(chan struct{}), make(chan struct{})
	c.join(t, f, "w", func(context.Context, protocol.Delivery) endpoint.Result {
		close(begun)
		<-release
		return endpoint.Result{Outcome: protocol.Confirmed}
	})
	words := waiting(t, f, 1)
	<-begun
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		f.stop()
	}()
	job := jobNamed("late")
	eventually(t, "it is stopping", func() bool {
		receipt, err := f.producer.Submit(t.Context(), job, endpoint.Digest(job))
		if err == nil {
			receipt.Acknowledge()
		}
		return errors.Is(err, endpoint.ErrUnavailable)
	})
	close(release)
	if w := heard(t, words, 1)[0]; w.err != nil || w.settled.DeadLettered {
		t.Errorf("told %v, %v", w.settled, w.err)
	}
	<-stopped
}

// A flow that has failed for good never settles anything in this process: its callers learn that at once (A-008, G-163).
func TestA008_FailureAnswersEveryWaitingCaller(t *testing.T) {
	q := &faultyQueue{WorkQueue: memoryQueue(t)}
	f := newFlow(t, q)
	f.start(t)
	words := waiting(t, f, 5)
	q.set(queue.ErrFenced, nil)
	job := jobNamed("fenced")
	_, _ = f.producer.Submit(t.Context(), job, endpoint.Digest(job))
	for _, w := range heard(t, words, 5) {
		if !errors.Is(w.err, endpoint.ErrUnavailable) {
			t.Errorf("told %v, %v", w.settled, w.err)
		}
	}
	if _, err := f.producer.Wait(t.Context(), queue.JobRef{MessageID: "a", StoreSeq: 1}); !errors.Is(err, endpoint.ErrUnavailable) {
		t.Errorf("waiting at a flow that has failed: %v", err)
	}
}

// Each caller hears once of its job, also several callers of one job and callers of a job that ended before.
func TestA007_EachCallerHearsOnce(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.start(t)
	words := waiting(t, f, 3)
	ref := queue.JobRef{MessageID: "a", StoreSeq: 1}
	again := make(chan word, 2)
	for range 2 {
		go func() {
			settled, err := f.producer.Wait(context.Background(), ref)
			again <- word{settled, err}
		}()
	}
	eventually(t, "everybody waits", func() bool { return f.producer.Waiting(t.Context()) == 5 })
	c := newCrew()
	c.join(t, f, "w", func(_ context.Context, d protocol.Delivery) endpoint.Result {
		if d.Job.MessageID == "b" {
			return endpoint.Result{Outcome: protocol.Rejected, Reason: "no good"}
		}
		return endpoint.Result{Outcome: protocol.Confirmed}
	})
	rejected := 0
	for _, w := range append(heard(t, words, 3), heard(t, again, 2)...) {
		if w.err != nil {
			t.Error(w.err)
		}
		if w.settled.DeadLettered {
			rejected++
		}
	}
	if rejected != 1 {
		t.Errorf("%d callers were told of a dead letter, want 1", rejected)
	}
	if w, err := f.producer.Wait(t.Context(), ref); err != nil || w.DeadLettered {
		t.Errorf("waiting for a job that has ended: %v, %v", w, err)
	}
	bad, err := f.producer.Lookup(t.Context(), "b")
	if err != nil || bad.Reason != "no good" {
		t.Errorf("looked up: %+v, %v", bad, err)
	}
	late, err := f.producer.Wait(t.Context(), queue.JobRef{MessageID: "b", StoreSeq: bad.StoreSeq})
	if err != nil || !late.DeadLettered || late.Reason != "no good" {
		t.Errorf("waiting for a job that is a dead letter: %+v, %v", late, err)
	}
	if n := f.producer.Waiting(t.Context()); n != 0 {
		t.Errorf("%d callers are still remembered", n)
	}
}
