package worker

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/sidecar/control"
	"github.com/workpulling/workpulling/sidecar/telemetry"
)

// sources are the flows of the first configuration, each with its producer as the newest one names it.
func (s *sidecar) sources() []endpoint.Source {
	var sources []endpoint.Source
	document := s.document.Load().Value
	for i, flow := range document.AllFlows() {
		dial := endpoint.DialPeer(func() transport.Peer { return s.peer(i, flow) })
		sources = append(sources, endpoint.Source{
			Flow: flow.Name,
			Dial: func(ctx context.Context) (endpoint.Stream, error) {
				s.tenant.wait(ctx)
				return dial(ctx)
			},
			Handler: s.app.handlerOf(document.Namespace, flow.Name),
		})
	}
	return sources
}

// peer is the producer of a flow, which stands at a place of its own in every version of the configuration.
func (s *sidecar) peer(at int, flow runtimeconfig.WorkerFlow) transport.Peer {
	if flows := s.document.Load().Value.AllFlows(); at < len(flows) && flows[at].Name == flow.Name {
		flow = flows[at]
	}
	return transport.Peer{
		Address:   flow.ProducerAddress,
		TLS:       transport.ClientTLS(s.CAFile, flow.ProducerHost),
		TokenFile: s.TokenFile,
	}
}

// consumerConfig translates the document; zero values mean the protocol's defaults.
func consumerConfig(document runtimeconfig.Worker) delivery.ConsumerConfig {
	out := delivery.DefaultConsumerConfig()
	if document.Window > 0 {
		out.Window = document.Window
	}
	if document.Concurrency > 0 {
		out.Concurrency = document.Concurrency
	}
	if document.ResendIntervalMS > 0 {
		out.ResendInterval = time.Duration(document.ResendIntervalMS) * time.Millisecond
	}
	out.HandlerTimeout = handlerTimeout(&document)
	out.MaxProducers = document.DedupMaxProducers
	out.ProducerIdle = time.Duration(document.DedupIdleSec) * time.Second
	return out
}

// handlerTimeout is asked for each job.
func handlerTimeout(document *runtimeconfig.Worker) time.Duration {
	if document.HandlerTimeoutSec > 0 {
		return time.Duration(document.HandlerTimeoutSec) * time.Second
	}
	return delivery.DefaultConsumerConfig().HandlerTimeout
}

// controlServer answers the operator.
type controlServer struct {
	listener net.Listener
	server   *grpc.Server
}

func (s *sidecar) answerOperator(listener net.Listener, registry prometheus.Registerer) (*controlServer, error) {
	certificate, err := transport.NewCertificate(filepath.Join(s.TLSDir, "tls.crt"), filepath.Join(s.TLSDir, "tls.key"))
	if err != nil {
		return nil, err
	}
	s.parts.Go(func() error {
		certificate.Follow(s.lifetime, s.Log.WithName("certificate"))
		return nil
	})
	telemetry.RegisterCertificate(registry, certificate, func() (transport.Bundle, error) { return transport.ReadBundle(s.CAFile) })
	server := transport.NewServer(transport.MutualServerTLS(certificate, s.CAFile, runtimeconfig.OperatorCommonName))
	protocolv1.RegisterWorkerControlServer(server, control.NewServer(s.worker, s.Incarnation, s.configHash))
	return &controlServer{listener: listener, server: server}, nil
}

func (c *controlServer) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, c.server.Stop)
	defer stop()
	if err := c.server.Serve(c.listener); err != nil {
		return fmt.Errorf("serving the operator: %w", err)
	}
	return nil
}
