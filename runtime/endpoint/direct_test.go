package endpoint_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// alone runs a producer without a server.
func alone(t *testing.T) *flow {
	t.Helper()
	f := &flow{options: endpoint.ProducerOptions{
		Config: fastConfig(), Queue: memoryQueue(t), Owner: "test", Log: logr.Discard(), Intake: delivery.SetIntake{Open: true, Dispatch: true},
	}}
	f.producer = endpoint.NewProducer(f.options)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = f.producer.Run(ctx) })
	f.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(f.stop)
	return f
}

// joinDirectly starts a worker of the same process.
func joinDirectly(t *testing.T, f *flow, uid string, handle endpoint.HandlerFunc) (*endpoint.Worker, func()) {
	t.Helper()
	worker := endpoint.NewWorker(endpoint.WorkerOptions{
		Config:      delivery.DefaultConsumerConfig(),
		Incarnation: protocol.Incarnation{PodUID: uid, BootNonce: endpoint.CryptoRandom{}.ID()},
		Flows:       []endpoint.Source{{Dial: f.producer.Direct(delivery.Worker{PodUID: uid, PodName: uid}), Handler: handle}},
		Log:         logr.Discard(),
	})
	worker.SetAppReady(true)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = worker.Run(ctx) })
	leave := sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(leave)
	return worker, leave
}

// replies counts answers.
type replies struct {
	stored, failed atomic.Int64
}

func (r *replies) Answered(answer endpoint.Answer) bool {
	if answer.Err != nil {
		r.failed.Add(1)
	} else {
		r.stored.Add(1)
	}
	return true
}

func post(to interface{ Post(endpoint.Submission) }, reply endpoint.Reply, from, n int) {
	for i := from; i < from+n; i++ {
		job := jobNamed(fmt.Sprintf("job-%05d", i))
		to.Post(endpoint.Submission{Job: job, Digest: endpoint.Digest(job), Reply: reply})
	}
}

// A worker that leaves in the middle takes nothing with it, and what is posted needs no acknowledgement.
func TestWorkersOfTheSameProcess(t *testing.T) {
	const jobs = 4000
	f := alone(t)
	var answered replies
	var seen sync.Map
	handle := func(_ context.Context, d protocol.Delivery) endpoint.Result {
		seen.Store(d.Job.MessageID, true)
		return endpoint.Result{Outcome: protocol.Confirmed}
	}
	_, leave := joinDirectly(t, f, "a", handle)
	joinDirectly(t, f, "b", handle)
	post(f.producer, &answered, 0, jobs/2)
	leave()
	post(f.producer, &answered, jobs/2, jobs/2)
	eventually(t, "all answers", func() bool { return answered.stored.Load() == jobs })
	f.settled(t)
	n := 0
	seen.Range(func(any, any) bool { n++; return true })
	if n != jobs || answered.failed.Load() != 0 {
		t.Errorf("%d of %d jobs ran, %d refused", n, jobs, answered.failed.Load())
	}
	if n, err := f.producer.ListOrphans(t.Context(), 0, 10); err != nil || len(n) != 0 {
		t.Errorf("orphans %v, %v", n, err)
	}
}

// Whoever posts to a producer that ends gets an answer all the same.
func TestPostAtTheEndIsAnswered(t *testing.T) {
	const jobs = 1000
	f := alone(t)
	var answered replies
	var posting sync.WaitGroup
	posting.Go(func() { post(f.producer, &answered, 0, jobs) })
	f.stop()
	posting.Wait()
	post(f.producer, &answered, jobs, 1)
	if n := answered.stored.Load() + answered.failed.Load(); n != jobs+1 {
		t.Errorf("%d answers to %d jobs", n, jobs+1)
	}
}

// A client submits what has no answer again over each new connection, and every job is stored once.
func TestClientOverBrokenConnections(t *testing.T) {
	const jobs, rounds = 3000, 6
	f := newFlow(t, memoryQueue(t))
	f.options.Config.DeliveryConfirmation = true
	// As in earnest: each answer that is repeated is acknowledged again, and a busy machine takes longer than 50 ms for all of them.
	f.options.Config.RetryInterval = delivery.DefaultControllerConfig().RetryInterval
	f.start(t)
	var confirmed atomic.Int64
	peer := f.peer(t, "user:app")
	client := endpoint.NewClient(endpoint.ClientOptions{
		Dial: endpoint.DialProducerPeer(func() transport.Peer { return peer }), Log: logr.Discard(),
		OnConfirmed: func(protocol.DeliveryConfirmed) { confirmed.Add(1) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = client.Run(ctx) })
	leave := sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(leave)
	c := newCrew()
	c.join(t, f, "w0", succeed)
	var answered replies
	for round := range rounds {
		post(client, &answered, round*jobs/rounds, jobs/rounds)
		want := int64(round*jobs/rounds + 1)
		eventually(t, "the first answers of a round", func() bool { return answered.stored.Load() >= want })
		f.proxy.Cut()
	}
	eventually(t, "all answers", func() bool { return answered.stored.Load() == jobs })
	f.settled(t)
	c.check(t, jobs)
	if s := f.stats(t); s.Accepted != jobs || answered.failed.Load() != 0 {
		t.Errorf("%d jobs stored of %d, %d refused", s.Accepted, jobs, answered.failed.Load())
	}
	if confirmed.Load() == 0 {
		t.Error("no notice of a confirmation")
	}
	leave()
	post(client, &answered, jobs, 1)
	if n := answered.failed.Load(); n != 1 {
		t.Errorf("%d refusals after the end", n)
	}
}
