package flowstats

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workpulling/workpulling/runtime/protocol"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/transport"
)

// Bounds of what a caller may send before anybody knows who it is, and of one report: a flow with 10,000 workers fits.
const (
	maxReport      = 4 << 20
	maxHeaderBytes = 64 << 10
	maxStreams     = 16 // of one connection; a producer has one
	handshakeTime  = 10 * time.Second
)

// Server is the FlowStatsCollector.
type Server struct {
	protocolv1.UnimplementedFlowStatsCollectorServer

	Address  string
	TLS      *tls.Config
	Identify func(ctx context.Context) (Producer, error)
	Registry *Registry
	Log      logr.Logger
	// Refused are the callers that were turned away, by reason.
	Refused transport.Refusals
}

// Start listens until ctx ends.
func (s *Server) Start(ctx context.Context) error {
	listener, err := net.Listen("tcp", s.Address)
	if err != nil {
		return fmt.Errorf("listening for flow statistics: %w", err)
	}
	return s.Serve(ctx, listener)
}

// Serve serves listener until ctx ends.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(s.TLS)),
		grpc.ConnectionTimeout(handshakeTime),
		grpc.MaxRecvMsgSize(maxReport),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 10 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	)
	protocolv1.RegisterFlowStatsCollectorServer(server, s)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving flow statistics: %w", err)
	}
	return nil
}

// NeedLeaderElection says yes: the numbers are needed where the reconcilers run.
func (s *Server) NeedLeaderElection() bool { return true }

// Report takes in the reports of one producer, until either side ends the stream.
func (s *Server) Report(stream grpc.BidiStreamingServer[protocolv1.FlowStats, protocolv1.FlowStatsAck]) error {
	producer, err := s.Identify(stream.Context())
	if err != nil {
		return s.turnAway(transport.AsRefusal(err))
	}
	flow := types.NamespacedName{Namespace: producer.Namespace, Name: producer.Flow}
	defer s.Registry.Disconnect(flow, producer.PodUID)
	for {
		stats, err := stream.Recv()
		if err != nil {
			// However the stream ends, the producer connects again.
			return nil
		}
		if stats.Namespace != producer.Namespace || stats.Flow != producer.Flow || stats.PodUid != producer.PodUID {
			return s.turnAway(&transport.Refusal{
				Code: protocol.RefusedIdentity, Label: transport.LabelPeerMismatch,
				Reason: fmt.Sprintf("pod %s reports for flow %s/%s, which it does not serve", producer.Pod, stats.Namespace, stats.Flow),
			})
		}
		s.Registry.Accept(flow, stats)
		if err := stream.Send(&protocolv1.FlowStatsAck{}); err != nil {
			return fmt.Errorf("acknowledging a report: %w", err)
		}
	}
}

// turnAway counts a refusal, logs it at most once a minute for each reason, and ends the stream with it.
func (s *Server) turnAway(refusal *transport.Refusal) error {
	s.Refused.Note(s.Log, refusal, time.Now()) //nolint:forbidigo // the pace of a log
	return refusal.Status()
}
