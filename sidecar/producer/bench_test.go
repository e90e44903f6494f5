package producer_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// BenchmarkIntake measures durably stored jobs through HTTPS, one job a request, by 64 submitters a core.
func BenchmarkIntake(b *testing.B) {
	p := newPod(b)
	p.document.BacklogMaxJobs = 10_000_000
	p.start()
	p.client.Transport.(*http.Transport).DisableKeepAlives = false
	defer p.client.CloseIdleConnections()
	body := strings.Repeat("x", 1024)
	var next atomic.Int64
	b.SetParallelism(64)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "https://"+p.options.IntakeAddress+"/v1/flows/orders/jobs", strings.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			request.Header.Set("Idempotency-Key", fmt.Sprint(next.Add(1)))
			request.Header.Set("Authorization", "Bearer user:bench")
			response, err := p.client.Do(request)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if response.StatusCode != http.StatusCreated {
				b.Errorf("status %d", response.StatusCode)
				return
			}
		}
	})
}
