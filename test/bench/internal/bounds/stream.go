package bounds

import (
	"context"
	"net"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/workpulling/workpulling/runtime/protocol/wire"
)

// bidirectional describes every method here: a stream both ways.
var bidirectional = grpc.StreamDesc{StreamName: "stream", ServerStreams: true, ClientStreams: true}

// serve answers the streams of named methods on a listener until stop is called.
func serve(listener net.Listener, methods map[string]func(grpc.ServerStream) error) (stop func() error) {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(wire.MaxMessageBytes), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		name, _ := grpc.MethodFromServerStream(stream)
		return methods[name[strings.LastIndexByte(name, '/')+1:]](stream)
	}))
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(listener) })
	return func() error {
		server.Stop()
		running.Wait()
		return nil
	}
}

// open opens a stream of a method at host:port or unix:path.
func open(ctx context.Context, address, method string) (stream grpc.ClientStream, stop func() error, err error) {
	target := address
	if !strings.HasPrefix(address, "unix:") {
		target = "passthrough:///" + address
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.MaxMessageBytes)))
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stream, err = conn.NewStream(ctx, &bidirectional, "/bench.Bound/"+method)
	stop = func() error {
		cancel()
		return conn.Close()
	}
	if err != nil {
		_ = stop()
		return nil, nil, err
	}
	return stream, stop, nil
}
