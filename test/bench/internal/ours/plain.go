package ours

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/protocol/wire"
)

// dialPlain is endpoint.DialPeer without TLS, which the product does not offer over a network: only to compare with peers that have none.
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
func (s *plainStream) Send(message protocol.FromWorker) error {
	for _, frame := range wire.EncodeFromWorker(message) {
		if err := s.stream.Send(frame); err != nil {
			return err
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
