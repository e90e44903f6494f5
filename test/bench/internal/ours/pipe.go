package ours

import (
	"context"
	"io"
	"sync"

	"google.golang.org/grpc/metadata"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/protocol/wire"
)

// pipe opens a worker's stream to a producer of the same process: frames pass as they are, through channels.
func pipe(ctx context.Context, service pb.WorkPullingServer, token string) endpoint.Stream {
	ctx, cancel := context.WithCancel(ctx)
	p := &pipeStream{up: make(chan *pb.WorkerFrame, 16), down: make(chan *pb.ControllerFrame, 16), ctx: ctx}
	in := metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", "Bearer "+token))
	var serving sync.WaitGroup
	serving.Go(func() {
		_ = service.Pull(&serverSide{pipeStream: p, in: in})
		cancel()
	})
	p.stop = func() {
		cancel()
		serving.Wait()
	}
	return p
}

// pipeStream is the worker's end.
type pipeStream struct {
	up   chan *pb.WorkerFrame
	down chan *pb.ControllerFrame
	ctx  context.Context //nolint:containedctx // the life of the stream
	stop func()
}

// Send implements endpoint.Stream.
func (p *pipeStream) Send(message protocol.FromWorker) error {
	for _, frame := range wire.EncodeFromWorker(message) {
		select {
		case p.up <- frame:
		case <-p.ctx.Done():
			return io.EOF
		}
	}
	return nil
}

// Recv implements endpoint.Stream.
func (p *pipeStream) Recv() (protocol.ToWorker, error) {
	select {
	case frame := <-p.down:
		return wire.DecodeToWorker(frame)
	case <-p.ctx.Done():
		return nil, io.EOF
	}
}

// Close implements endpoint.Stream.
func (p *pipeStream) Close() { p.stop() }

// serverSide is the producer's end.
type serverSide struct {
	pb.WorkPulling_PullServer // nil: what is not here is not called

	*pipeStream
	in context.Context //nolint:containedctx // with the token
}

// Context implements grpc.ServerStream.
func (s *serverSide) Context() context.Context { return s.in }

// Send implements pb.WorkPulling_PullServer.
func (s *serverSide) Send(frame *pb.ControllerFrame) error {
	select {
	case s.down <- frame:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// Recv implements pb.WorkPulling_PullServer.
func (s *serverSide) Recv() (*pb.WorkerFrame, error) {
	select {
	case frame := <-s.up:
		return frame, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}
