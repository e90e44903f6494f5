package ours

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// startWorker runs a worker whose handler does nothing but the account, and waits until it is bound.
func startWorker(ctx context.Context, s *trial.Stage, number int, handle func([]byte), dial func(context.Context) (endpoint.Stream, error)) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	config := delivery.DefaultConsumerConfig()
	config.Window = s.Window
	worker := endpoint.NewWorker(endpoint.WorkerOptions{
		Config:      config,
		Incarnation: protocol.Incarnation{PodUID: uidOf(number), BootNonce: endpoint.CryptoRandom{}.ID()},
		Flows: []endpoint.Source{{Dial: dial, Handler: endpoint.HandlerFunc(func(_ context.Context, d protocol.Delivery) endpoint.Result {
			handle(d.Job.Payload)
			return endpoint.Result{Outcome: protocol.Confirmed}
		})}},
		Log: logr.Discard(),
	})
	worker.SetAppReady(true)
	var running sync.WaitGroup
	running.Go(func() { _ = worker.Run(ctx) })
	stop = func() error {
		cancel()
		running.Wait()
		return nil
	}
	if err := bound(worker); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

func uidOf(worker int) string { return fmt.Sprintf("worker-%d", worker) }

// bound waits until a producer has taken the worker.
func bound(worker *endpoint.Worker) error {
	for deadline := time.Now().Add(20 * time.Second); !worker.Status().Registered; {
		if time.Now().After(deadline) {
			return errors.New("the worker is not bound")
		}
		<-time.After(5 * time.Millisecond)
	}
	return nil
}
