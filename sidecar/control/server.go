package control

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// Worker is what can be asked and cordoned.
type Worker interface {
	Status() delivery.ConsumerStatus
	CordonIfIdle(ctx context.Context) (bool, delivery.ConsumerStatus)
	StartDrain()
	Uncordon()
	// Now is the time on the clock of ConsumerStatus.IdleSince.
	Now() delivery.Now
}

// Server implements protocolv1.WorkerControlServer.
type Server struct {
	protocolv1.UnimplementedWorkerControlServer
	worker      Worker
	incarnation protocol.Incarnation
	configHash  func() string
}

// NewServer returns a Server that speaks for worker.
func NewServer(worker Worker, incarnation protocol.Incarnation, configHash func() string) *Server {
	return &Server{worker: worker, incarnation: incarnation, configHash: configHash}
}

// GetStatus describes the worker.
func (s *Server) GetStatus(context.Context, *protocolv1.GetStatusRequest) (*protocolv1.WorkerStatus, error) {
	return s.describe(s.worker.Status()), nil
}

// CordonIfIdle stops demand if nothing is in flight.
func (s *Server) CordonIfIdle(ctx context.Context, request *protocolv1.CordonIfIdleRequest) (*protocolv1.CordonIfIdleReply, error) {
	if err := s.expect(request.GetExpectedPodUid()); err != nil {
		return nil, err
	}
	cordoned, now := s.worker.CordonIfIdle(ctx)
	return &protocolv1.CordonIfIdleReply{Cordoned: cordoned, Status: s.describe(now)}, nil
}

// StartDrain stops demand, hands back what has not started, and lets the rest finish.
func (s *Server) StartDrain(_ context.Context, request *protocolv1.StartDrainRequest) (*protocolv1.WorkerStatus, error) {
	if err := s.expect(request.GetExpectedPodUid()); err != nil {
		return nil, err
	}
	s.worker.StartDrain()
	return s.describe(s.worker.Status()), nil
}

// Uncordon takes demand up again.
func (s *Server) Uncordon(_ context.Context, request *protocolv1.UncordonRequest) (*protocolv1.WorkerStatus, error) {
	if err := s.expect(request.GetExpectedPodUid()); err != nil {
		return nil, err
	}
	s.worker.Uncordon()
	return s.describe(s.worker.Status()), nil
}

func (s *Server) expect(podUID string) error {
	if podUID != s.incarnation.PodUID {
		return status.Errorf(codes.FailedPrecondition, "this is pod %s, not %s", s.incarnation.PodUID, podUID)
	}
	return nil
}

func (s *Server) describe(now delivery.ConsumerStatus) *protocolv1.WorkerStatus {
	var idle int64
	if now.Idle && now.EverRegistered {
		idle = int64((s.worker.Now() - now.IdleSince) / time.Second)
	}
	return &protocolv1.WorkerStatus{
		PodUid:      s.incarnation.PodUID,
		BootNonce:   s.incarnation.BootNonce,
		Registered:  now.Registered,
		Running:     int32(now.Running),
		Buffered:    int32(now.Buffered),
		Unsettled:   int32(now.Unsettled),
		Cordoned:    now.Cordoned,
		Draining:    now.Draining,
		Drained:     now.Drained,
		IdleSeconds: idle,
		AppReady:    now.AppReady,
		ConfigHash:  s.configHash(),
	}
}
