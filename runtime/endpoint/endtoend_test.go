package endpoint_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/local"
	"github.com/workpulling/workpulling/runtime/queue/memory"
)

func memoryQueue(t *testing.T) queue.WorkQueue {
	t.Helper()
	q, err := memory.New(memory.Options{DeduplicationWindow: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	return q
}

func localQueue(t *testing.T, dir string) queue.WorkQueue {
	t.Helper()
	q, err := local.Open(t.Context(), local.Options{Dir: dir, FlowUID: "uid", DeduplicationWindow: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// The fault-free path: every job runs exactly once (G-004).
func TestThreeWorkersFinishEveryJobOnce(t *testing.T) {
	const jobs = 5000
	f := newFlow(t, memoryQueue(t))
	f.start(t)
	c := newCrew()
	for i := range 3 {
		c.join(t, f, fmt.Sprint("w", i), succeed)
	}
	began := time.Now()
	submit(t, f, 0, jobs)
	f.settled(t)
	t.Logf("%.0f jobs a second", jobs/time.Since(began).Seconds())
	c.check(t, jobs)
	if n := c.repeats(); n != 0 {
		t.Errorf("%d repeats without any fault", n)
	}
	if s := f.stats(t); s.Accepted != jobs || s.Confirmed != jobs {
		t.Errorf("accepted %d, confirmed %d, want %d", s.Accepted, s.Confirmed, jobs)
	}
}

// Connections that break in the middle cost nothing but time: bindings survive a reconnect, so nothing even runs twice.
func TestBrokenConnectionsLoseNothing(t *testing.T) {
	const jobs = 3000
	f := newFlow(t, memoryQueue(t))
	f.start(t)
	c := newCrew()
	for i := range 3 {
		c.join(t, f, fmt.Sprint("w", i), succeed)
	}
	for part := range 6 {
		submit(t, f, part*jobs/6, jobs/6)
		f.proxy.Cut()
	}
	f.settled(t)
	c.check(t, jobs)
	if n := c.repeats(); n != 0 {
		t.Errorf("%d repeats, although no worker died", n)
	}
}

// A half-open connection is found by the deadline of silence; the work goes on after the network is back (B-170, B-256).
func TestHalfOpenConnectionIsReplaced(t *testing.T) {
	const jobs = 400
	f := newFlow(t, memoryQueue(t))
	f.start(t)
	c := newCrew()
	worker, _ := c.join(t, f, "w0", succeed)
	submit(t, f, 0, jobs/2)
	f.settled(t)
	f.proxy.Freeze()
	submit(t, f, jobs/2, jobs/2)
	eventually(t, "the silent worker is lost", func() bool { return len(f.stats(t).Bindings) == 0 })
	f.proxy.Thaw()
	f.proxy.Cut()
	f.settled(t)
	c.check(t, jobs)
	if !worker.Status().Registered {
		t.Error("the worker is not registered again")
	}
}

// A worker that dies with jobs in hand: survivors run them (B-161).
func TestDeadWorkersJobsGoToASurvivor(t *testing.T) {
	const jobs = 600
	f := newFlow(t, memoryQueue(t))
	f.start(t)
	c := newCrew()
	stuck := make(chan struct{}, 1)
	_, die := c.join(t, f, "victim", func(ctx context.Context, d protocol.Delivery) endpoint.Result {
		select {
		case stuck <- struct{}{}:
		default:
		}
		<-ctx.Done()
		return endpoint.Result{Outcome: protocol.Nacked}
	})
	submit(t, f, 0, jobs)
	<-stuck
	die()
	c.join(t, f, "survivor", succeed)
	f.settled(t)
	c.check(t, jobs)
}

// The producer is killed over the same durable queue, several times, under load: workers rebind by themselves, nothing is lost,
// and what was stored before is known afterwards.
func TestKilledProducerLosesNothing(t *testing.T) {
	t.Logf("%d repeats", restart(t, time.Nanosecond))
}

// A producer that is stopped in order lets short jobs finish: nothing runs twice.
func TestStoppedProducerRepeatsNothing(t *testing.T) {
	if n := restart(t, time.Minute); n != 0 {
		t.Errorf("%d repeats", n)
	}
}

// restart runs jobs through several lives of one producer, each ended with the given grace, and returns how many ran again.
func restart(t *testing.T, grace time.Duration) (repeats int) {
	t.Helper()
	const jobs, rounds = 2000, 4
	dir := t.TempDir()
	f := newFlow(t, nil)
	f.options.StopGrace = grace
	c := newCrew()
	for round := range rounds {
		q := localQueue(t, dir)
		f.options.Queue = q
		f.start(t)
		if round == 0 {
			for i := range 3 {
				c.join(t, f, fmt.Sprint("w", i), func(context.Context, protocol.Delivery) endpoint.Result {
					<-time.After(time.Millisecond) // a job that takes a moment
					return endpoint.Result{Outcome: protocol.Confirmed}
				})
			}
		} else {
			began := time.Now()
			eventually(t, "three workers bound again", func() bool { return len(f.stats(t).Bindings) == 3 })
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("workers took %s to bind again", took)
			}
		}
		submit(t, f, round*jobs/rounds, jobs/rounds)
		if round == rounds-1 {
			break
		}
		f.stop()
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
	}
	f.settled(t)
	c.check(t, jobs)
	state, err := f.producer.Lookup(t.Context(), "job-00000")
	if err != nil || state.Status != queue.StatusConfirmed {
		t.Errorf("the first job is %v, %v", state, err)
	}
	f.stop()
	if err := f.options.Queue.Close(); err != nil {
		t.Fatal(err)
	}
	return c.repeats()
}
