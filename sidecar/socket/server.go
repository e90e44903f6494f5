package socket

import (
	"context"
	"fmt"
	"net"
	"time"

	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// Bounds of one server.
const (
	maxConnections   = 256
	maxStreams       = 128
	maxHeaderBytes   = 64 << 10
	handshakeTimeout = 10 * time.Second
	// windowBytes is fixed: gRPC would otherwise ask for the right size with a ping after each message that comes alone.
	windowBytes = 1 << 20
	// fastestPing is how often a client may ping; more often ends its connection.
	fastestPing = 5 * time.Second
	// never is long enough.
	never = 365 * 24 * time.Hour
)

// Server serves gRPC on a Unix socket, without TLS.
type Server struct {
	listener net.Listener
	grpc     *grpc.Server
}

// Serve opens the socket at path for the services that register adds. A message from a client has at most maxReceive bytes.
func Serve(path string, maxReceive int, register func(grpc.ServiceRegistrar)) (*Server, error) {
	listener, err := Listen(path)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.MaxRecvMsgSize(maxReceive),
		grpc.StaticStreamWindowSize(windowBytes),
		grpc.StaticConnWindowSize(windowBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: never}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: fastestPing, PermitWithoutStream: true}),
	)
	register(server)
	return &Server{listener: netutil.LimitListener(listener, maxConnections), grpc: server}, nil
}

// Run serves until ctx ends. Then streams get parting to end by themselves.
func (s *Server) Run(ctx context.Context, parting time.Duration) error {
	finished := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(finished)
		timer := time.AfterFunc(parting, s.grpc.Stop)
		defer timer.Stop()
		s.grpc.GracefulStop()
	})
	if err := s.grpc.Serve(s.listener); err != nil {
		stop()
		return fmt.Errorf("serving the app: %w", err)
	}
	<-finished
	return nil
}
