package transport

import (
	"crypto/tls"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/workpulling/workpulling/runtime/protocol/wire"
)

// Keepalive finds half-open connections (B-170). The protocol's own heartbeats do it sooner; this covers streams that have none.
const (
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 5 * time.Second
)

// NewServer returns a gRPC server with the bounds of this package.
func NewServer(config *tls.Config, options ...grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append([]grpc.ServerOption{
		grpc.Creds(credentials.NewTLS(config)),
		grpc.ConnectionTimeout(10 * time.Second),
		grpc.MaxRecvMsgSize(wire.MaxMessageBytes),
		grpc.MaxSendMsgSize(wire.MaxMessageBytes),
		grpc.MaxHeaderListSize(64 << 10),
		grpc.MaxConcurrentStreams(64),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
	}, options...)...)
}
