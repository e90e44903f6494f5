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

// windowBytes is how much of a stream, and of a connection, may be under way and not yet read. It is fixed: gRPC would otherwise look for the
// right size with a ping after each message that comes alone, which costs both ends more than the message. A megabyte keeps a path of
// 10 ms at 100 MB/s, and is what a peer can fill at most where nobody reads, one frame in progress apart.
const windowBytes = 1 << 20

// NewServer returns a gRPC server with the bounds of this package.
func NewServer(config *tls.Config, options ...grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append([]grpc.ServerOption{
		grpc.Creds(credentials.NewTLS(config)),
		grpc.ConnectionTimeout(10 * time.Second),
		grpc.ForceServerCodecV2(wire.Codec{}),
		grpc.MaxRecvMsgSize(wire.MaxMessageBytes),
		grpc.MaxSendMsgSize(wire.MaxMessageBytes),
		grpc.StaticStreamWindowSize(windowBytes),
		grpc.StaticConnWindowSize(windowBytes),
		grpc.ReadBufferSize(0), // TLS has a buffer of its own
		grpc.MaxHeaderListSize(64 << 10),
		grpc.MaxConcurrentStreams(64),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
	}, options...)...)
}
