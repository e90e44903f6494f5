package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	appv1 "github.com/workpulling/workpulling/runtime/protocol/app/v1"
)

// reopenAfter is how long the app waits before it opens a new stream.
const reopenAfter = 500 * time.Millisecond

// maxFrameBytes is the largest frame that the app takes: a job and what is around it.
const maxFrameBytes = 32 << 20

// take works over one stream after another until ctx ends.
func (w *worker) take(ctx context.Context, socket string) error {
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxFrameBytes), grpc.MaxCallSendMsgSize(maxFrameBytes)))
	if err != nil {
		return fmt.Errorf("preparing a connection to %s: %w", socket, err)
	}
	defer conn.Close()
	for {
		err := w.session(ctx, appv1.NewWorkerClient(conn))
		if ctx.Err() != nil {
			return nil
		}
		slog.Warn("the stream to the sidecar ended", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(reopenAfter):
		}
	}
}

// session works over one stream. It returns when the stream has ended and nothing that came by it runs any more, so each hello can say that
// what earlier streams brought has ended. When ctx ends the app leaves: it finishes what it has and takes nothing new.
func (w *worker) session(ctx context.Context, client appv1.WorkerClient) error {
	lifetime, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stream, err := client.Work(lifetime)
	if err != nil {
		return fmt.Errorf("opening a stream: %w", err)
	}
	if err := stream.Send(&appv1.AppFrame{Hello: &appv1.Hello{Version: 1, App: "sample"}, EarlierEnded: true}); err != nil {
		return fmt.Errorf("saying hello: %w", err)
	}
	outcomes := make(chan *appv1.Outcome)
	var running, sending sync.WaitGroup
	sending.Go(func() { send(ctx, lifetime, stream, outcomes) })
	defer sending.Wait()
	defer end()
	defer running.Wait()
	for {
		frame, err := stream.Recv()
		if err != nil {
			end() // nobody waits for outcomes any more
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("receiving jobs: %w", err)
		}
		if welcome := frame.GetWelcome(); welcome != nil {
			slog.Info("the sidecar said welcome", "pool", welcome.GetPool(), "concurrency", welcome.GetConcurrency())
		}
		for _, delivery := range frame.GetDeliveries() {
			running.Go(func() {
				select {
				case outcomes <- w.answer(context.WithoutCancel(ctx), delivery):
				case <-lifetime.Done():
				}
			})
		}
	}
}

// send sends outcomes, as many in a frame as there are, and once that the app leaves.
func send(ctx, lifetime context.Context, stream appv1.Worker_WorkClient, outcomes <-chan *appv1.Outcome) {
	leave := ctx.Done()
	for {
		frame := &appv1.AppFrame{}
		select {
		case outcome := <-outcomes:
			frame.Outcomes = append(frame.Outcomes, outcome)
		case <-leave:
			frame.Leaving, leave = true, nil
		case <-lifetime.Done():
			return
		}
		for more := true; more; {
			select {
			case outcome := <-outcomes:
				frame.Outcomes = append(frame.Outcomes, outcome)
			default:
				more = false
			}
		}
		if stream.Send(frame) != nil {
			return // the receiver is told why
		}
	}
}

// answer does one job.
func (w *worker) answer(ctx context.Context, d *appv1.Delivery) *appv1.Outcome {
	run := Execution{ID: rand.Text(), MessageID: d.GetMessageId(), Worker: w.name, Attempt: int(d.GetAttempt())}
	for _, header := range d.GetHeaders() {
		switch header.GetKey() {
		case "ce-id":
			run.EventID = header.GetValue()
		case "ce-source":
			run.Source = header.GetValue()
		}
	}
	outcome := &appv1.Outcome{DeliveryId: d.GetId(), Result: appv1.Result_RESULT_CONFIRMED}
	switch err := w.execute(ctx, run, d.GetPayload()); {
	case errors.Is(err, errNotText):
		outcome.Result, outcome.Reason = appv1.Result_RESULT_REJECT, err.Error()
	case errors.Is(err, errStoreUnavailable):
		slog.Warn("the store does not answer; the job will come back", "message", run.MessageID, "error", err)
		outcome.Result, outcome.Reason = appv1.Result_RESULT_DELAY, "the store does not answer"
		outcome.RetryAfterMilliseconds = time.Second.Milliseconds()
	case err != nil:
		outcome.Result, outcome.Reason = appv1.Result_RESULT_NACK, err.Error()
	}
	return outcome
}
