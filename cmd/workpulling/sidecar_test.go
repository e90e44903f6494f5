package main

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	appv1 "github.com/workpulling/workpulling/runtime/protocol/app/v1"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/handler"
	"github.com/workpulling/workpulling/sidecar/socket"
)

// sidecar is the part of a worker that an app with streams talks to, without a flow behind it.
type sidecar struct {
	*handler.Streams
	t            *testing.T
	sent         atomic.Int64 // deliveries
	earlierEnded atomic.Bool
	stop         func() // breaks all streams
}

// newSidecar serves streams at path, and returns when the app has opened one.
func newSidecar(t *testing.T, path string) *sidecar {
	t.Helper()
	s := &sidecar{t: t}
	s.Streams = handler.NewStreams(handler.StreamsOptions{Log: logr.Discard(), EarlierEnded: func() { s.earlierEnded.Store(true) }})
	server, err := socket.Serve(path, handler.MaxAppFrameBytes, func(r grpc.ServiceRegistrar) { appv1.RegisterWorkerServer(r, s) })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Run(ctx, 0) // it is told to end
	}()
	s.stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(s.stop)
	transporttest.Eventually(t, "the app opens a stream", s.Ready)
	return s
}

// Work counts what the streams send.
func (s *sidecar) Work(stream appv1.Worker_WorkServer) error {
	return s.Streams.Work(countedStream{stream, &s.sent})
}

type countedStream struct {
	appv1.Worker_WorkServer
	sent *atomic.Int64
}

func (c countedStream) Send(frame *appv1.SidecarFrame) error {
	err := c.Worker_WorkServer.Send(frame)
	c.sent.Add(int64(len(frame.GetDeliveries())))
	return err
}

// begin returns when the job is on its way to the app.
func (s *sidecar) begin(payload string, sequence int64) <-chan endpoint.Result {
	s.t.Helper()
	job := protocol.Job{MessageID: strconv.FormatInt(sequence, 10), Payload: []byte(payload)}
	delivery := protocol.Delivery{WorkerSeq: sequence, StoreSeq: sequence, Attempt: 1, Job: job}
	result, before := make(chan endpoint.Result, 1), s.sent.Load()
	go func() { result <- s.For("words").Handle(context.Background(), delivery) }()
	transporttest.Eventually(s.t, "the job is sent", func() bool { return s.sent.Load() > before })
	return result
}

// confirm waits until the app has done a job.
func (s *sidecar) confirm(payload string, sequence int64) {
	s.t.Helper()
	if result := <-s.begin(payload, sequence); result.Outcome != protocol.Confirmed {
		s.t.Errorf("job %d ended with %+v", sequence, result)
	}
}
