package ours

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/transport"
)

// flow is a running producer with its queue.
type flow struct {
	*endpoint.Producer
	queue   queue.WorkQueue
	cancel  context.CancelFunc
	running sync.WaitGroup
	server  *grpc.Server
}

func startFlow(ctx context.Context, q queue.WorkQueue) *flow {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flow{queue: q, cancel: cancel, Producer: endpoint.NewProducer(endpoint.ProducerOptions{
		Config: delivery.DefaultControllerConfig(), Queue: q, Owner: "bench", Log: logr.Discard(),
		Intake: delivery.SetIntake{Open: true, Dispatch: true}, Authenticator: tokens{},
	})}
	f.running.Go(func() { _ = f.Run(ctx) })
	return f
}

// listen serves workers on loopback, with TLS or without, and returns the address.
func (f *flow) listen(certificates *authority) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	if certificates == nil {
		f.server = transport.NewServer(nil, grpc.Creds(insecure.NewCredentials()))
	} else {
		certificate, err := transport.NewCertificate(certificates.files(serverName))
		if err != nil {
			return "", err
		}
		f.server = transport.NewServer(transport.ServerTLS(certificate))
	}
	f.Register(f.server)
	f.running.Go(func() { _ = f.server.Serve(listener) })
	return listener.Addr().String(), nil
}

// stop ends the producer, then its streams.
func (f *flow) stop() error {
	f.cancel()
	if f.server != nil {
		f.server.Stop()
	}
	f.running.Wait()
	return errors.Join(f.queue.Close())
}
