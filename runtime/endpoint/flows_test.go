package endpoint_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// source is f as a flow of a worker.
func (f *flow) source(t *testing.T, name, uid string, handler endpoint.HandlerFunc) endpoint.Source {
	peer := f.peer(t, "pod:"+uid)
	return endpoint.Source{Flow: name, Dial: endpoint.DialPeer(func() transport.Peer { return peer }), Handler: handler}
}

func startWorker(t *testing.T, concurrency int, sources ...endpoint.Source) *endpoint.Worker {
	t.Helper()
	config := delivery.DefaultConsumerConfig()
	config.Concurrency, config.Window, config.ResendInterval = concurrency, 50, 200*time.Millisecond
	worker := endpoint.NewWorker(endpoint.WorkerOptions{
		Config: config, Incarnation: protocol.Incarnation{PodUID: "w0", BootNonce: endpoint.CryptoRandom{}.ID()}, Flows: sources,
		Log: logr.Discard(), ReconnectMin: 10 * time.Millisecond, ReconnectMax: 100 * time.Millisecond,
	})
	worker.SetAppReady(true)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = worker.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return worker
}

// One worker serves two producers over two connections. Both get on although the same ids come by both flows, slots are shared, and no
// id runs twice at once (I-9).
func TestAWorkerPullsFromTwoProducers(t *testing.T) {
	const jobs = 300
	orders, returns := newFlow(t, memoryQueue(t)), newFlow(t, memoryQueue(t))
	orders.start(t)
	returns.start(t)
	submit(t, orders, 0, jobs)
	submit(t, returns, 0, jobs) // the same MessageIDs
	c := newCrew()
	var running, most atomic.Int32
	handlerOf := func(flow string) endpoint.HandlerFunc {
		return func(ctx context.Context, d protocol.Delivery) endpoint.Result {
			if now := running.Add(1); now > most.Load() {
				most.Store(now)
			}
			defer running.Add(-1)
			return c.handle(ctx, "w0", d, func(context.Context, protocol.Delivery) endpoint.Result {
				c.mu.Lock()
				c.done[flow]++
				c.mu.Unlock()
				return endpoint.Result{Outcome: protocol.Confirmed}
			})
		}
	}
	worker := startWorker(t, 4, orders.source(t, "orders", "w0", handlerOf("orders")), returns.source(t, "returns", "w0", handlerOf("returns")))
	orders.settled(t)
	returns.settled(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.overlap) > 0 || most.Load() > 4 {
		t.Errorf("ids that ran twice at once: %v; %d handlers at a time, the limit is 4", c.overlap, most.Load())
	}
	if c.done["orders"] != jobs || c.done["returns"] != jobs {
		t.Errorf("%d handlers of orders and %d of returns, want %d of each", c.done["orders"], c.done["returns"], jobs)
	}
	eventually(t, "the status tells of each flow", func() bool {
		s := worker.Status()
		return s.Registered && s.Confirmed == 2*jobs && s.Flows[0].Confirmed == jobs && s.Flows[1].Confirmed == jobs && s.Unsettled == 0
	})
}

// A producer that is away, and one that comes back, leave the other flow alone.
func TestAMissingProducerDoesNotStopTheOtherFlow(t *testing.T) {
	orders, returns := newFlow(t, memoryQueue(t)), newFlow(t, memoryQueue(t))
	orders.start(t) // returns does not run yet
	var done sync.Map
	succeed := func(flow string) endpoint.HandlerFunc {
		return func(_ context.Context, d protocol.Delivery) endpoint.Result {
			done.Store(flow+"/"+d.Job.MessageID, true)
			return endpoint.Result{Outcome: protocol.Confirmed}
		}
	}
	worker := startWorker(t, 2, orders.source(t, "orders", "w0", succeed("orders")), returns.source(t, "returns", "w0", succeed("returns")))
	submit(t, orders, 0, 50)
	orders.settled(t)
	if s := worker.Status(); s.Registered || !s.Flows[0].Registered || s.Flows[1].Registered || !s.EverRegistered {
		t.Errorf("status %+v", s)
	}
	returns.start(t)
	submit(t, returns, 0, 50)
	returns.settled(t)

	orders.stop()
	submit(t, returns, 50, 50)
	returns.settled(t)
	for i := range 100 {
		if _, ok := done.Load(fmt.Sprintf("returns/job-%05d", i)); !ok {
			t.Fatalf("job %d of returns did not run", i)
		}
	}
	// Draining is the worker's, and is not held up by a flow whose producer is away and holds nothing.
	worker.StartDrain()
	select {
	case <-worker.Drained():
	case <-t.Context().Done():
		t.Fatal("never drained")
	}
}
