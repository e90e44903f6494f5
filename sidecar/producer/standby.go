package producer

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/protocol"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/sidecar/intake"
)

// services are what a member answers over gRPC, whoever has the seat: over TLS to workers, producer endpoints and other members, and on the
// socket of the app beside to producer endpoints.
type services struct {
	protocolv1.UnimplementedWorkPullingServer
	protocolv1.UnimplementedProducerMemberServer
	member *member
	// peer is the member at an address; on the socket with this pod's own token.
	peer func(address string) transport.Peer
	// subject is whom a caller on the socket acts as; empty over TLS, where callers present tokens.
	subject string
}

func (s *services) register(server *grpc.Server) {
	protocolv1.RegisterWorkPullingServer(server, s)
	protocolv1.RegisterProducerMemberServer(server, s)
}

// registerBeside is register for the socket.
func (s *services) registerBeside(server grpc.ServiceRegistrar) {
	protocolv1.RegisterWorkPullingServer(server, s)
}

// of is the service of the producer with the seat.
func (s *services) of(p *endpoint.Producer) protocolv1.WorkPullingServer {
	if s.subject != "" {
		return p.LocalService(s.subject)
	}
	return p.Service()
}

// Pull serves a worker, or tells it where the active producer is.
func (s *services) Pull(stream protocolv1.WorkPulling_PullServer) error {
	if p := s.member.producer(); p != nil {
		return s.of(p).Pull(stream)
	}
	return transport.RefuseAsStandby(stream, s.active())
}

// Produce serves a producer endpoint, or passes its stream on.
func (s *services) Produce(stream protocolv1.WorkPulling_ProduceServer) error {
	if p := s.member.producer(); p != nil {
		return s.of(p).Produce(stream)
	}
	return transport.RelayProduce(stream, s.peer(s.active()))
}

func (s *services) active() string {
	if v := s.member.view.Load(); v.alive {
		return v.owner.Streams
	}
	return ""
}

// Look tells another member what this process is doing.
func (s *services) Look(context.Context, *protocolv1.LookRequest) (*protocolv1.MemberStatus, error) {
	m := s.member
	status := &protocolv1.MemberStatus{PodUid: m.self.PodUID, BootNonce: m.self.BootNonce}
	if seat := m.seat.Load(); seat != nil && !seat.fencedOut.Load() {
		status.Turn, status.TroubledMilliseconds = seat.self.Turn, m.troubled(seat).Milliseconds()
	}
	return status, nil
}

// ask asks the member behind peer. Each time is a new connection: a process that is gone is then told from one that does not answer.
func ask(ctx context.Context, peer transport.Peer) fencing.Answer {
	var refused atomic.Bool
	peer.DialContext = func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		refused.Store(errors.Is(err, syscall.ECONNREFUSED))
		return conn, err
	}
	conn, err := peer.Connect()
	if err != nil {
		return fencing.Answer{}
	}
	defer conn.Close()
	reply, err := protocolv1.NewProducerMemberClient(conn).Look(ctx, &protocolv1.LookRequest{})
	if err != nil {
		return fencing.Answer{Refused: refused.Load()}
	}
	return fencing.Answer{
		Heard: true, PodUID: reply.GetPodUid(), BootNonce: reply.GetBootNonce(), Turn: reply.GetTurn(),
		Troubled: time.Duration(reply.GetTroubledMilliseconds()) * time.Millisecond,
	}
}

// flow is the intake's view of a member: the one with the seat takes jobs.
type flow struct{ member *member }

var _ intake.Flow = flow{}

// SubmitBatch implements intake.Flow.
func (f flow) SubmitBatch(ctx context.Context, entries []endpoint.Submission) []endpoint.Answer {
	if p := f.member.producer(); p != nil {
		return p.SubmitBatch(ctx, entries)
	}
	answers := make([]endpoint.Answer, len(entries))
	for i := range answers {
		answers[i].Err = endpoint.ErrUnavailable
	}
	return answers
}

// Wait implements intake.Flow.
func (f flow) Wait(ctx context.Context, ref queue.JobRef) (endpoint.Settled, error) {
	if p := f.member.producer(); p != nil {
		return p.Wait(ctx, ref)
	}
	return endpoint.Settled{}, endpoint.ErrUnavailable
}

// Lookup implements intake.Flow.
func (f flow) Lookup(ctx context.Context, messageID string) (queue.JobState, error) {
	if p := f.member.producer(); p != nil {
		return p.Lookup(ctx, messageID)
	}
	return queue.JobState{}, endpoint.ErrUnavailable
}

// ListDeadLetters implements intake.Flow.
func (f flow) ListDeadLetters(ctx context.Context, after int64, limit int) ([]queue.DeadLetter, error) {
	if p := f.member.producer(); p != nil {
		return p.ListDeadLetters(ctx, after, limit)
	}
	return nil, endpoint.ErrUnavailable
}

// ReadJob implements intake.Flow.
func (f flow) ReadJob(ctx context.Context, seq int64) (protocol.Job, error) {
	if p := f.member.producer(); p != nil {
		return p.ReadJob(ctx, seq)
	}
	return protocol.Job{}, endpoint.ErrUnavailable
}

// Redrive implements intake.Flow.
func (f flow) Redrive(ctx context.Context, ref queue.JobRef, audit string) error {
	if p := f.member.producer(); p != nil {
		return p.Redrive(ctx, ref, audit)
	}
	return endpoint.ErrUnavailable
}

// Drop implements intake.Flow.
func (f flow) Drop(ctx context.Context, ref queue.JobRef, audit string) error {
	if p := f.member.producer(); p != nil {
		return p.Drop(ctx, ref, audit)
	}
	return endpoint.ErrUnavailable
}

// ListOrphans implements intake.Flow.
func (f flow) ListOrphans(ctx context.Context, after int64, limit int) ([]queue.Orphan, error) {
	if p := f.member.producer(); p != nil {
		return p.ListOrphans(ctx, after, limit)
	}
	return nil, endpoint.ErrUnavailable
}

// AcceptOrphan implements intake.Flow.
func (f flow) AcceptOrphan(ctx context.Context, ref queue.JobRef, audit string) error {
	if p := f.member.producer(); p != nil {
		return p.AcceptOrphan(ctx, ref, audit)
	}
	return endpoint.ErrUnavailable
}

// ListAudit implements intake.Flow.
func (f flow) ListAudit(ctx context.Context, after uint64, limit int) ([]queue.AuditLine, error) {
	if p := f.member.producer(); p != nil {
		return p.ListAudit(ctx, after, limit)
	}
	return nil, endpoint.ErrUnavailable
}
