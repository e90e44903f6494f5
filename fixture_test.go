package workpulling_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/workpulling/workpulling"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

func waitFor(t testing.TB, what string, condition func() bool) {
	t.Helper()
	transporttest.Eventually(t, what, condition)
}

func stats(t testing.TB, p *workpulling.Producer) workpulling.ProducerStats {
	t.Helper()
	s, err := p.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runner is a Producer, Worker or Client.
type runner interface {
	Run(ctx context.Context) error
}

// start runs something until the test ends or stop is called, which returns what Run did.
func start(t testing.TB, r runner) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

// quick are options of a producer whose times fit a test.
func quick(queue workpulling.Queue) workpulling.ProducerOptions {
	return workpulling.ProducerOptions{
		Flow: "test", Queue: queue, BackoffInitial: 10 * time.Millisecond, BackoffMax: 50 * time.Millisecond,
		Heartbeat: 100 * time.Millisecond, Deadline: time.Second,
	}
}

func newProducer(t testing.TB, options workpulling.ProducerOptions) (*workpulling.Producer, func() error) {
	t.Helper()
	p, err := workpulling.NewProducer(options)
	if err != nil {
		t.Fatal(err)
	}
	return p, start(t, p)
}

func newWorker(t testing.TB, handler workpulling.Handler, options workpulling.WorkerOptions) (*workpulling.Worker, func() error) {
	t.Helper()
	w, err := workpulling.NewWorker(handler, options)
	if err != nil {
		t.Fatal(err)
	}
	return w, start(t, w)
}

func job(id string) workpulling.Job {
	return workpulling.Job{ID: id, Payload: []byte("payload of " + id)}
}

// store submits jobs until each is stored, as an application does.
func store(t testing.TB, to interface {
	SubmitBatch(context.Context, ...workpulling.Job) []workpulling.Result
}, ids ...string) {
	t.Helper()
	var jobs []workpulling.Job
	for _, id := range ids {
		jobs = append(jobs, job(id))
	}
	deadline := time.Now().Add(transporttest.Patience)
	for len(jobs) > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("%d jobs could not be stored", len(jobs))
		}
		var again []workpulling.Job
		for i, result := range to.SubmitBatch(t.Context(), jobs...) {
			switch {
			case result.Err == nil:
			case errors.Is(result.Err, workpulling.ErrUnavailable), isFull(result.Err):
				again = append(again, jobs[i])
			default:
				t.Fatal(result.Err)
			}
		}
		jobs = again
	}
}

func isFull(err error) bool {
	full, ok := errors.AsType[*workpulling.BackPressureError](err)
	return ok && full.RetryAfter > 0
}

// tally counts what handlers did, by ID.
type tally struct {
	mu      sync.Mutex
	runs    map[string]int
	running map[string]bool
	overlap []string
}

func newTally() *tally { return &tally{runs: map[string]int{}, running: map[string]bool{}} }

// around counts the successful runs of a handler.
func (c *tally) around(h workpulling.Handler) workpulling.Handler {
	return func(ctx context.Context, d workpulling.Delivery) error {
		c.mu.Lock()
		if c.running[d.ID] {
			c.overlap = append(c.overlap, d.ID)
		}
		c.running[d.ID] = true
		c.mu.Unlock()
		var err error
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.running, d.ID)
			if err == nil {
				c.runs[d.ID]++
			}
		}()
		err = errors.New("the handler did not return")
		err = h(ctx, d)
		return err
	}
}

func (c *tally) done() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.runs)
}

func succeed(context.Context, workpulling.Delivery) error { return nil }

// keepOpen is a queue that several producers share.
func keepOpen(q queue.WorkQueue) workpulling.Queue {
	return func(context.Context, string, time.Duration) (queue.WorkQueue, error) { return notClosed{q}, nil }
}

type notClosed struct{ queue.WorkQueue }

func (notClosed) Close() error { return nil }
