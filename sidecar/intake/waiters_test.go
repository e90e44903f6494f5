package intake_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/sidecar/intake"
)

func confirm(context.Context, protocol.Delivery) endpoint.Result {
	return endpoint.Result{Outcome: protocol.Confirmed}
}

// Callers that wait for a confirmation hold no share of the memory for bodies: others go on submitting.
func TestWaitersKeepNobodyFromSubmitting(t *testing.T) {
	const waiters = 8
	body := strings.Repeat("x", 1000)
	w := newWorld(t, func(_ *endpoint.ProducerOptions, o *intake.Options) { o.MemoryBytes = 1000 })
	var waiting sync.WaitGroup
	for n := range waiters {
		waiting.Go(func() {
			status := 429
			for status == 429 {
				status = w.send("POST", jobs+"?wait=confirmed&timeout=1m", body, "Idempotency-Key", fmt.Sprint(n)).status
			}
			if status != 201 {
				t.Errorf("waiter %d got %d", n, status)
			}
		})
	}
	w.until("everybody's job is stored though nobody works", func() bool { return w.stats().Accepted == waiters })
	w.until("another one is taken", func() bool { return w.send("POST", jobs, body, "Idempotency-Key", "other").status == 201 })
	w.work(confirm)
	waiting.Wait()
}
