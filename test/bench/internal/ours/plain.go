package ours

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/protocol/wire"
	"github.com/workpulling/workpulling/runtime/queue/memory"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// Plain is Direct without TLS over the memory queue. The product does not offer that: it is here to compare with peers that have none.
type Plain struct{ producer *endpoint.Producer }

// Name implements trial.System.
func (*Plain) Name() string { return "direct-memory-plain" }

// Settings implements trial.System.
func (*Plain) Settings() string {
	return "like direct-memory, without TLS, which the product does not offer; on the packages below the Go API"
}

// Available implements trial.System.
func (*Plain) Available() error { return nil }

// Processes implements trial.System.
func (*Plain) Processes(s *trial.Stage) []trial.Process { return trial.TwoProcesses(s, "flow") }

// Serve implements trial.System.
func (p *Plain) Serve(ctx context.Context, s *trial.Stage, _ string) (func() error, error) {
	queue, err := memory.New(memory.Options{DeduplicationWindow: deduplication})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p.producer = endpoint.NewProducer(endpoint.ProducerOptions{
		Config: delivery.DefaultControllerConfig(), Queue: queue, Owner: "bench", Log: logr.Discard(),
		Intake: delivery.SetIntake{Open: true, Dispatch: true}, Authenticator: tokens{},
	})
	server := transport.NewServer(nil, grpc.Creds(insecure.NewCredentials()))
	p.producer.Register(server)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { _ = p.producer.Run(ctx) }) // it returns nil
	running.Go(func() { _ = server.Serve(listener) })
	return func() error {
		cancel()
		server.Stop()
		running.Wait()
		return queue.Close()
	}, s.Tell(toldAddress, listener.Addr().String())
}

// Produce implements trial.System.
func (p *Plain) Produce(context.Context, *trial.Stage) (trial.Submitter, error) {
	return submitter{p.producer}, nil
}

// Consume implements trial.System.
func (p *Plain) Consume(ctx context.Context, s *trial.Stage, worker int, handle func([]byte)) (func() error, error) {
	address, err := s.Told(toldAddress)
	if err != nil {
		return nil, err
	}
	config := delivery.DefaultConsumerConfig()
	config.Window = s.Window
	w := endpoint.NewWorker(endpoint.WorkerOptions{
		Config:      config,
		Incarnation: protocol.Incarnation{PodUID: uidOf(worker), BootNonce: endpoint.CryptoRandom{}.ID()},
		Flows: []endpoint.Source{{
			Dial: dialPlain(address, "pod:"+uidOf(worker)),
			Handler: endpoint.HandlerFunc(func(_ context.Context, d protocol.Delivery) endpoint.Result {
				handle(d.Job.Payload)
				return endpoint.Result{Outcome: protocol.Confirmed}
			}),
		}},
		Log: logr.Discard(),
	})
	w.SetAppReady(true)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { _ = w.Run(ctx) }) // it returns nil
	return func() error {
		cancel()
		running.Wait()
		return nil
	}, nil
}

// dialPlain is endpoint.DialPeer without TLS.
func dialPlain(address, token string) func(context.Context) (endpoint.Stream, error) {
	return func(ctx context.Context) (endpoint.Stream, error) {
		conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.MaxMessageBytes), grpc.MaxCallSendMsgSize(wire.MaxMessageBytes)))
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token))
		stop := func() {
			cancel()
			_ = conn.Close() // nothing is left to lose
		}
		stream, err := pb.NewWorkPullingClient(conn).Pull(ctx)
		if err != nil {
			stop()
			return nil, errors.Join(errors.New("opening a stream without TLS"), err)
		}
		return &plainStream{stream, stop}, nil
	}
}

type plainStream struct {
	stream pb.WorkPulling_PullClient
	stop   func()
}

// Send implements endpoint.Stream.
func (s *plainStream) Send(messages ...protocol.FromWorker) error {
	for _, message := range messages {
		for _, frame := range wire.EncodeFromWorker(message) {
			if err := s.stream.Send(frame); err != nil {
				return err
			}
		}
	}
	return nil
}

// Recv implements endpoint.Stream.
func (s *plainStream) Recv() (protocol.ToWorker, error) {
	frame, err := s.stream.Recv()
	if err != nil {
		return nil, err
	}
	return wire.DecodeToWorker(frame)
}

// Close implements endpoint.Stream.
func (s *plainStream) Close() { s.stop() }
