package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/protocol/wire"
)

// DefaultDialTimeout bounds one attempt, name look-up and TLS handshake included. A dead address must not hold up the next try.
const DefaultDialTimeout = 3 * time.Second

// Peer says where a server is and how to talk to it.
type Peer struct {
	// Address is host:port; the host is looked up on every dial, because a pod's address changes with its restart.
	Address string
	// TLS verifies the server, as ClientTLS does.
	TLS *tls.Config
	// TokenFile holds the bearer token; empty for servers that ask for a certificate.
	TokenFile string
	// Token, where it is set, gives the token instead of a file.
	Token TokenFunc
	// Timeout bounds an attempt (DefaultDialTimeout).
	Timeout time.Duration
	// DialContext replaces the way to an address, for tests.
	DialContext func(ctx context.Context, address string) (net.Conn, error)
	// Route, where it is set, remembers the hints of producers that stand by, from one stream to the next.
	Route *Route
}

// Connect prepares one connection; it is established by the first call on it and never re-established in the background
// beyond gRPC's first retries: callers close it and connect anew.
func (p Peer) Connect() (*grpc.ClientConn, error) {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(credentials.NewTLS(p.TLS.Clone())),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(wire.Codec{}), grpc.MaxCallRecvMsgSize(wire.MaxMessageBytes), grpc.MaxCallSendMsgSize(wire.MaxMessageBytes),
		),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: p.timeout(),
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
		}),
		grpc.WithStaticStreamWindowSize(windowBytes),
		grpc.WithStaticConnWindowSize(windowBytes),
		grpc.WithReadBufferSize(0),
		grpc.WithIdleTimeout(0),
		grpc.WithNoProxy(),
	}
	switch {
	case p.Token != nil:
		options = append(options, grpc.WithPerRPCCredentials(p.Token))
	case p.TokenFile != "":
		options = append(options, grpc.WithPerRPCCredentials(TokenFile(p.TokenFile)))
	}
	dial := p.DialContext
	if dial == nil {
		dial = dialAny
	}
	options = append(options, grpc.WithContextDialer(dial))
	conn, err := grpc.NewClient("passthrough:///"+p.Address, options...)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection to %s: %w", p.Address, err)
	}
	return conn, nil
}

func (p Peer) timeout() time.Duration {
	if p.Timeout > 0 {
		return p.Timeout
	}
	return DefaultDialTimeout
}

// errDialTimeout is the cause of a stream that could not be opened in time.
var errDialTimeout = errors.New("no connection within the dial timeout")

// open connects and opens one stream; the returned stop ends both.
func open[S any](ctx context.Context, p Peer, call func(context.Context, pb.WorkPullingClient) (S, error)) (stream S, stop func(), err error) {
	if hint := p.Route.take(); hint != "" {
		p.Address = hint
	}
	conn, err := p.Connect()
	if err != nil {
		return stream, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop = func() {
		cancel(context.Canceled)
		_ = conn.Close()
	}
	timer := time.AfterFunc(p.timeout(), func() { cancel(errDialTimeout) })
	stream, err = call(ctx, pb.NewWorkPullingClient(conn))
	if !timer.Stop() && err == nil {
		err = errDialTimeout
	}
	if err != nil {
		stop()
		return stream, nil, fmt.Errorf("opening a stream to %s: %w", p.Address, errors.Join(err, context.Cause(ctx)))
	}
	return stream, stop, nil
}

// WorkerStream is a worker's stream to a producer. Send and Recv may be used by one goroutine each.
type WorkerStream struct {
	stream pb.WorkPulling_PullClient
	stop   func()
	route  *Route
}

// DialWorker opens a worker's stream. It stays open after ctx ends only until then: ctx bounds its life.
func (p Peer) DialWorker(ctx context.Context) (*WorkerStream, error) {
	stream, stop, err := open(ctx, p, func(ctx context.Context, c pb.WorkPullingClient) (pb.WorkPulling_PullClient, error) {
		return c.Pull(ctx)
	})
	if err != nil {
		return nil, err
	}
	return &WorkerStream{stream, stop, p.Route}, nil
}

// Send writes messages in order.
func (s *WorkerStream) Send(messages ...protocol.FromWorker) error {
	for _, message := range messages {
		for _, frame := range wire.EncodeFromWorker(message) {
			if err := s.stream.Send(frame); err != nil {
				return err
			}
		}
	}
	return nil
}

// Recv waits for the next message; an error that wraps protocol.ErrInvalid leaves the stream usable.
func (s *WorkerStream) Recv() (protocol.ToWorker, error) {
	frame, err := s.stream.Recv()
	if err != nil {
		s.route.learn(activeOf(s.stream))
		return nil, err
	}
	return wire.DecodeToWorker(frame)
}

// Close ends the stream and its connection.
func (s *WorkerStream) Close() { s.stop() }

// ProducerStream is a producer endpoint's stream. Send and Recv may be used by one goroutine each.
type ProducerStream struct {
	stream  pb.WorkPulling_ProduceClient
	stop    func()
	batches atomic.Bool // the producer takes them
}

// DialProducer opens a producer endpoint's stream; ctx bounds its life.
func (p Peer) DialProducer(ctx context.Context) (*ProducerStream, error) {
	stream, stop, err := open(ctx, p, func(ctx context.Context, c pb.WorkPullingClient) (pb.WorkPulling_ProduceClient, error) {
		return c.Produce(ctx)
	})
	if err != nil {
		return nil, err
	}
	return &ProducerStream{stream: stream, stop: stop}, nil
}

// Send writes messages in order, several a frame where the producer takes that.
func (s *ProducerStream) Send(messages ...protocol.FromProducer) error {
	for _, frame := range wire.EncodeFromProducer(s.batches.Load(), messages...) {
		if err := s.stream.Send(frame); err != nil {
			return err
		}
	}
	return nil
}

// Recv waits for the next frame and returns its messages in order; an error that wraps protocol.ErrInvalid leaves the stream usable.
func (s *ProducerStream) Recv() ([]protocol.ToProducer, error) {
	frame, err := s.stream.Recv()
	if err != nil {
		return nil, err
	}
	if wire.TakesBatches(frame) {
		s.batches.Store(true)
	}
	return wire.DecodeToProducer(frame)
}

// CloseSend says that nothing more comes. The producer ends the stream when it has read what came before.
func (s *ProducerStream) CloseSend() error { return s.stream.CloseSend() }

// Close ends the stream and its connection.
func (s *ProducerStream) Close() { s.stop() }
