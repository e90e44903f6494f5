package producer

import (
	"context"
	"sync"
	"testing"

	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/memory"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// The nonce may change after it was looked whether the flow has failed under the old one, and before anybody finds the producer to tell it so.
func TestTheNonceChangesWhileTheFlowStarts(t *testing.T) {
	q, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	m := &member{
		log: logr.Discard(),
		take: func(string, string, func(delivery.Failed)) (*endpoint.Producer, int64) {
			return endpoint.NewProducer(endpoint.ProducerOptions{
				Config: delivery.DefaultControllerConfig(), Queue: q, Owner: "test", Log: logr.Discard(),
				Halted: &delivery.Failed{Stage: delivery.StageStore, Cause: queue.ErrConflict},
			}), 0
		},
		nonce:     func() int64 { return 1 },
		configure: func(*endpoint.Producer) {},
	}
	m.init(fencing.CandidateConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = m.run(ctx) })
	defer running.Wait()
	defer cancel()
	transporttest.Eventually(t, "the queue is loaded", func() bool {
		stats, err := m.stats(t.Context())
		return err == nil && stats.Epoch == 1
	})
}
