package handler_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/handler"
	"github.com/workpulling/workpulling/sidecar/handler/apptest"
)

// BenchmarkStreamHop is what one job costs between a sidecar and a Go app on a Unix socket: both ends, to the app and back. The processor
// time counts: the other figure tells more about what else the machine does.
func BenchmarkStreamHop(b *testing.B) {
	for _, tc := range []struct {
		bytes, headers, concurrency int
	}{{256, 0, 1}, {256, 0, 50}, {256, 0, 200}, {256, 5, 50}, {4 << 10, 0, 50}} {
		b.Run(fmt.Sprintf("bytes=%d/headers=%d/concurrency=%d", tc.bytes, tc.headers, tc.concurrency), func(b *testing.B) {
			streams, path := serve(b, handler.StreamsOptions{})
			app := apptest.Start(b, path)
			var working sync.WaitGroup
			working.Go(func() { _ = app.Run(apptest.Confirmed) })
			defer working.Wait()
			defer app.Kill()
			handle := streams.For("orders")
			d := delivery()
			d.Job.Payload = make([]byte, tc.bytes)
			d.Job.Headers = headers(tc.headers)
			jobs := make(chan struct{}, tc.concurrency)
			b.ReportAllocs()
			b.ResetTimer()
			before := transporttest.ProcessorTime(b)
			var handling sync.WaitGroup
			for range b.N {
				jobs <- struct{}{}
				handling.Go(func() { // one goroutine a job, as the worker has
					if result := handle.Handle(b.Context(), d); result != (endpoint.Result{Outcome: confirmed.Outcome}) {
						b.Errorf("result %+v", result)
					}
					<-jobs
				})
			}
			handling.Wait()
			b.StopTimer()
			b.ReportMetric(float64(transporttest.ProcessorTime(b)-before)/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(b.N)/float64(app.Frames()), "jobs/frame")
		})
	}
}

// headers are n attributes of an event.
func headers(n int) map[string]string {
	out := map[string]string{}
	for i := range n {
		out[fmt.Sprint("ce-attribute", i)] = "a value of some length"
	}
	return out
}
