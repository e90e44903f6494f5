package workpulling_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling"
)

// What a handler says decides what becomes of its job.
func TestWhatAHandlerSays(t *testing.T) {
	errBad := errors.New("bad luck")
	for _, c := range []struct {
		name     string
		say      func(attempt int) error // of the tries until one says nil
		outcomes []string
		attempts []int
		dead     string // the reason, where it becomes a dead letter
	}{
		{name: "nil", say: func(int) error { return nil }, outcomes: []string{"confirmed"}, attempts: []int{1}},
		{name: "an error", say: func(n int) error {
			if n < 3 {
				return errBad
			}
			return nil
		}, outcomes: []string{"nacked", "nacked", "confirmed"}, attempts: []int{1, 2, 3}},
		{name: "a panic", say: func(n int) error {
			if n < 2 {
				panic("on purpose")
			}
			return nil
		}, outcomes: []string{"nacked", "confirmed"}, attempts: []int{1, 2}},
		{name: "Reject", say: func(int) error { return fmt.Errorf("the order: %w", workpulling.Reject(errBad)) },
			outcomes: []string{"rejected"}, attempts: []int{1}, dead: "the order: bad luck"},
		{name: "Reject without a reason", say: func(int) error { return workpulling.Reject(nil) },
			outcomes: []string{"rejected"}, attempts: []int{1}, dead: "rejected"},
		{name: "errors without end", say: func(int) error { return errBad },
			outcomes: []string{"nacked", "nacked", "nacked"}, attempts: []int{1, 2, 3}, dead: "bad luck"},
	} {
		t.Run(c.name, func(t *testing.T) {
			options := quick(workpulling.Memory())
			options.MaxAttempts = 3
			producer, _ := newProducer(t, options)
			var mu sync.Mutex
			var attempts []int
			var outcomes []string
			newWorker(t, func(_ context.Context, d workpulling.Delivery) error {
				mu.Lock()
				attempts = append(attempts, d.Attempt)
				mu.Unlock()
				return c.say(d.Attempt)
			}, workpulling.WorkerOptions{
				Flows: []workpulling.Flow{{Producer: producer}},
				Observe: func(a workpulling.Attempt) {
					mu.Lock()
					defer mu.Unlock()
					outcomes = append(outcomes, a.Outcome)
				},
			})
			receipt, err := producer.Submit(t.Context(), job("a"))
			if err != nil {
				t.Fatal(err)
			}
			err = producer.WaitConfirmed(t.Context(), receipt)
			if letter, ok := errors.AsType[*workpulling.DeadLetterError](err); ok != (c.dead != "") || ok && letter.Reason != c.dead {
				t.Errorf("ended with %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff(c.outcomes, outcomes); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.attempts, attempts); diff != "" {
				t.Errorf("attempts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRetryAfterCostsNoAttempt(t *testing.T) {
	const wait = 300 * time.Millisecond
	producer, _ := newProducer(t, quick(workpulling.Memory()))
	var calls, attempts atomic.Int64
	newWorker(t, func(_ context.Context, d workpulling.Delivery) error {
		attempts.Store(int64(d.Attempt))
		if calls.Add(1) < 3 {
			return workpulling.RetryAfter(wait, errors.New("the mail server is busy"))
		}
		return nil
	}, workpulling.WorkerOptions{Flows: []workpulling.Flow{{Producer: producer}}})
	began := time.Now()
	receipt, err := producer.Submit(t.Context(), job("a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := producer.WaitConfirmed(t.Context(), receipt); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 2*wait || attempts.Load() != 1 {
		t.Errorf("took %s, attempt %d", took, attempts.Load())
	}
}

// A handler past its timeout sees its context end and keeps its slot; the job goes to another worker meanwhile, and what the late one says
// counts for nothing.
func TestSlowHandler(t *testing.T) {
	producer, _ := newProducer(t, quick(workpulling.Memory()))
	release := make(chan struct{})
	var slow, quickRuns atomic.Int64
	newWorker(t, func(ctx context.Context, _ workpulling.Delivery) error {
		if slow.Add(1) > 1 {
			return nil
		}
		<-ctx.Done()
		<-release
		return workpulling.Reject(errors.New("too late to say so"))
	}, workpulling.WorkerOptions{Flows: []workpulling.Flow{{Producer: producer}}, HandlerTimeout: 100 * time.Millisecond})
	receipt, err := producer.Submit(t.Context(), job("a"))
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the slow one has it", func() bool { return slow.Load() == 1 })
	newWorker(t, func(context.Context, workpulling.Delivery) error {
		quickRuns.Add(1)
		return nil
	}, workpulling.WorkerOptions{Flows: []workpulling.Flow{{Producer: producer}}})
	if err := producer.WaitConfirmed(t.Context(), receipt); err != nil {
		t.Errorf("ended with %v", err)
	}
	close(release)
	if slow.Load() != 1 || quickRuns.Load() != 1 {
		t.Errorf("ran %d and %d times", slow.Load(), quickRuns.Load())
	}
}

// A handler that ends its goroutine has failed; its slot is free again.
func TestHandlerThatEndsItsGoroutine(t *testing.T) {
	producer, _ := newProducer(t, quick(workpulling.Memory()))
	newWorker(t, func(_ context.Context, d workpulling.Delivery) error {
		if d.Attempt == 1 {
			runtime.Goexit()
		}
		return nil
	}, workpulling.WorkerOptions{Flows: []workpulling.Flow{{Producer: producer}}})
	receipt, err := producer.Submit(t.Context(), job("a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := producer.WaitConfirmed(t.Context(), receipt); err != nil {
		t.Error(err)
	}
}

// One worker pulls from two flows, one of its own process and one over TLS, and no ID of theirs runs twice at once.
func TestSeveralFlows(t *testing.T) {
	const jobs = 300
	dir := filepath.Join(t.TempDir(), "run")
	near, _ := newProducer(t, quick(workpulling.Memory()))
	options := quick(workpulling.Memory())
	options.Flow, options.Listen, options.SharedSecret = "far", "127.0.0.1:0", dir
	far, _ := newProducer(t, options)
	counts := newTally()
	var mu sync.Mutex
	byFlow := map[string]int{}
	worker, _ := newWorker(t, counts.around(func(_ context.Context, d workpulling.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		byFlow[d.Flow]++
		return nil
	}), workpulling.WorkerOptions{
		Flows:    []workpulling.Flow{{Producer: near}, {Name: "far", Address: far.Address()}},
		Identity: workpulling.SharedSecret(dir, "worker-1"), Concurrency: 4,
	})
	var ids []string
	for i := range jobs {
		ids = append(ids, fmt.Sprint("job-", i))
	}
	store(t, near, ids...)
	store(t, far, ids...)
	waitFor(t, "all confirmed", func() bool { return stats(t, near).Confirmed+stats(t, far).Confirmed == 2*jobs })
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(map[string]int{"test": jobs, "far": jobs}, byFlow); diff != "" {
		t.Errorf("jobs by flow (-want +got):\n%s", diff)
	}
	if len(counts.overlap) > 0 {
		t.Errorf("ran twice at once: %v", counts.overlap)
	}
	if s := worker.Stats(); !s.Registered || s.Confirmed != 2*jobs || s.Running+s.Held != 0 {
		t.Errorf("stats %+v", s)
	}
}

// A worker that is told to end finishes what runs and gives back the rest.
func TestDrain(t *testing.T) {
	const jobs = 30
	producer, _ := newProducer(t, quick(workpulling.Memory()))
	begun, release := make(chan string, jobs), make(chan struct{})
	_, leave := newWorker(t, func(_ context.Context, d workpulling.Delivery) error {
		begun <- d.ID
		<-release
		return nil
	}, workpulling.WorkerOptions{Flows: []workpulling.Flow{{Producer: producer}}, Concurrency: 2})
	var ids []string
	for i := range jobs {
		ids = append(ids, fmt.Sprint("job-", i))
	}
	store(t, producer, ids...)
	running := []string{<-begun, <-begun}
	left := make(chan error, 1)
	go func() { left <- leave() }()
	waitFor(t, "the rest went back", func() bool { return stats(t, producer).Backlog == jobs-2 })
	close(release)
	if err := <-left; err != nil {
		t.Errorf("drained with %v", err)
	}
	if s := stats(t, producer); s.Confirmed != 2 || len(begun) != 0 {
		t.Errorf("confirmed %d, begun %v and %d more", s.Confirmed, running, len(begun))
	}
	counts := newTally()
	newWorker(t, counts.around(succeed), workpulling.WorkerOptions{Flows: []workpulling.Flow{{Producer: producer}}})
	waitFor(t, "all confirmed", func() bool { return stats(t, producer).Confirmed == jobs })
	for _, id := range running {
		if counts.runs[id] != 0 {
			t.Errorf("%s ran again", id)
		}
	}
}

// A drain that takes too long ends with an error, and the handler's context with it.
func TestDrainTimeout(t *testing.T) {
	producer, _ := newProducer(t, quick(workpulling.Memory()))
	begun := make(chan struct{})
	_, leave := newWorker(t, func(ctx context.Context, _ workpulling.Delivery) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}, workpulling.WorkerOptions{Flows: []workpulling.Flow{{Producer: producer}}, DrainTimeout: 50 * time.Millisecond})
	store(t, producer, "a")
	<-begun
	if err := leave(); !errors.Is(err, workpulling.ErrNotDrained) {
		t.Errorf("ended with %v", err)
	}
}

func TestOptionsThatMakeNoWorker(t *testing.T) {
	producer, _ := newProducer(t, quick(workpulling.Memory()))
	for _, c := range []struct {
		name    string
		handler workpulling.Handler
		options workpulling.WorkerOptions
		want    string
	}{
		{"no handler", nil, workpulling.WorkerOptions{Flows: []workpulling.Flow{{Producer: producer}}}, "needs a handler"},
		{"no flow", succeed, workpulling.WorkerOptions{}, "needs flows"},
		{"a flow twice", succeed, workpulling.WorkerOptions{Flows: []workpulling.Flow{{Producer: producer}, {Producer: producer}}}, "twice"},
		{"no identity", succeed, workpulling.WorkerOptions{Flows: []workpulling.Flow{{Address: "127.0.0.1:1"}}}, "no identity"},
		{"nowhere to go", succeed, workpulling.WorkerOptions{
			Flows: []workpulling.Flow{{Name: "x"}}, Identity: workpulling.SharedSecret(t.TempDir(), ""),
		}, "neither an address nor a producer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := workpulling.NewWorker(c.handler, c.options); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
