package workpulling_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/workpulling/workpulling"
)

// BenchmarkInProcess is a flow in one process over the memory queue: b.N jobs of 256 bytes submitted asynchronously by one goroutine, four workers
// with a window of 50, and the time until all are confirmed. The sum of what the handlers saw is verified.
func BenchmarkInProcess(b *testing.B) {
	for _, concurrency := range []int{1, 8} {
		b.Run(fmt.Sprint("concurrency-", concurrency), func(b *testing.B) { benchInProcess(b, concurrency) })
	}
}

func benchInProcess(b *testing.B, concurrency int) {
	b.Helper()
	const workers, size = 4, 256
	producer, err := workpulling.NewProducer(workpulling.ProducerOptions{Queue: workpulling.Memory()})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = producer.Run(ctx) })
	var handled, sum atomic.Int64
	all := make(chan struct{})
	handle := func(_ context.Context, d workpulling.Delivery) error {
		sum.Add(d.Sequence)
		if handled.Add(1) == int64(b.N) {
			close(all)
		}
		return nil
	}
	for range workers {
		worker, err := workpulling.NewWorker(handle, workpulling.WorkerOptions{
			Flows: []workpulling.Flow{{Producer: producer}}, Concurrency: concurrency, Window: 50,
		})
		if err != nil {
			b.Fatal(err)
		}
		running.Go(func() { _ = worker.Run(ctx) })
	}
	waitFor(b, "four workers", func() bool { return stats(b, producer).Workers == workers })
	payload := make([]byte, size)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		// Most producers have the ID already; making one here is part of the cost of none.
		if _, err := producer.SubmitAsync(ctx, workpulling.Job{ID: strconv.Itoa(i), Payload: payload}); err != nil {
			b.Fatal(err)
		}
	}
	<-all
	waitFor(b, "all confirmed", func() bool { return stats(b, producer).Confirmed == uint64(b.N) })
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	cancel()
	running.Wait()
	if want := int64(b.N) * int64(b.N+1) / 2; sum.Load() != want || handled.Load() != int64(b.N) {
		b.Errorf("%d jobs with the sum %d, want %d with %d", handled.Load(), sum.Load(), b.N, want)
	}
}
