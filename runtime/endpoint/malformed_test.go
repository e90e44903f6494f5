package endpoint_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// babble is a stream whose producer sends frames that nobody can read.
type babble struct {
	frames atomic.Int64
	closed chan struct{}
	once   sync.Once
	sent   atomic.Int64 // what is no registration
}

func (b *babble) Send(messages ...protocol.FromWorker) error {
	for _, m := range messages {
		if _, ok := m.(protocol.RegisterConsumer); !ok {
			b.sent.Add(1)
		}
	}
	return nil
}

func (b *babble) Recv() (protocol.ToWorker, error) {
	if b.frames.Add(-1) >= 0 {
		return nil, fmt.Errorf("%w: worker sequence 0", protocol.ErrInvalid)
	}
	<-b.closed
	return nil, context.Canceled
}

func (b *babble) Close() { b.once.Do(func() { close(b.closed) }) }

// A-021, B-200, B-202, B-204 at the worker: refused envelopes run no handler and settle nothing, are counted, are logged once a minute and
// not each, and end neither the stream nor the process.
func TestMalformedFramesAreCountedAndNothingElse(t *testing.T) {
	const frames = 5000
	var lines, dials atomic.Int64
	log := funcr.New(func(_, args string) {
		if strings.Contains(args, "malformed") {
			lines.Add(1)
		}
	}, funcr.Options{})
	stream := &babble{closed: make(chan struct{})}
	stream.frames.Store(frames)
	worker := endpoint.NewWorker(endpoint.WorkerOptions{
		Config: delivery.DefaultConsumerConfig(), Incarnation: protocol.Incarnation{PodUID: "w0", BootNonce: "b"}, Log: log,
		Flows: []endpoint.Source{{
			Flow: "orders",
			Dial: func(context.Context) (endpoint.Stream, error) {
				dials.Add(1)
				return stream, nil
			},
			Handler: endpoint.HandlerFunc(func(context.Context, protocol.Delivery) endpoint.Result {
				t.Error("a handler ran")
				return endpoint.Result{}
			}),
		}},
	})
	worker.SetAppReady(true)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = worker.Run(ctx) })
	eventually(t, "every frame is counted", func() bool { return worker.Status().Flows[0].Dropped["malformed-frame"] == frames })
	if lines.Load() != 1 || dials.Load() != 1 || stream.sent.Load() != 0 {
		t.Errorf("%d log lines, %d streams, %d messages beside registrations; want 1, 1 and 0", lines.Load(), dials.Load(), stream.sent.Load())
	}
	cancel()
	stream.Close()
	running.Wait()
}
