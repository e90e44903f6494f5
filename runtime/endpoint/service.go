package endpoint

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/protocol/wire"
	"github.com/workpulling/workpulling/runtime/transport"
)

// identityTimeout bounds the check of one peer (G-085).
const identityTimeout = 5 * time.Second

// Register serves WorkPulling on a gRPC server. ProducerOptions.Authenticator is required then.
func (p *Producer) Register(server grpc.ServiceRegistrar) {
	pb.RegisterWorkPullingServer(server, p.Service())
}

// Service is what Register serves, for a host whose producer is not always the same one.
func (p *Producer) Service() pb.WorkPullingServer { return service{producer: p} }

// LocalService is Service for callers that need not present a token, because nobody else reaches it: they act as subject. It serves
// producer endpoints alone.
func (p *Producer) LocalService(subject string) pb.WorkPullingServer {
	return service{producer: p, subject: subject}
}

// service is the gRPC face of a Producer.
type service struct {
	pb.UnimplementedWorkPullingServer
	producer *Producer
	subject  string // whom every caller acts as; empty where callers present a token
}

// Pull serves one worker's stream until either side ends it.
func (s service) Pull(stream pb.WorkPulling_PullServer) error {
	p := s.producer
	if s.subject != "" {
		return status.Error(codes.PermissionDenied, "workers bind over TLS, with the token of their pod")
	}
	worker, err := s.worker(stream.Context())
	if err != nil {
		return s.refuseWorker(stream, transport.AsRefusal(err))
	}
	conn, out := p.nextConn(), transport.NewOutbox[protocol.ToWorker]()
	writer := workerWriter{stream: stream}
	out.Unhurried = writer.unhurried
	if !p.loop.post(func() { p.attachWorker(conn, worker, out) }) {
		return status.Error(codes.Unavailable, "the producer is stopping")
	}
	defer p.loop.post(func() { p.detachWorker(conn, worker.PodUID) })
	return serve(stream.Context(), out, writer.send, func() error { return s.receiveWorker(stream, conn, worker) })
}

// worker authenticates the peer.
func (s service) worker(ctx context.Context) (delivery.Worker, error) {
	token, err := transport.BearerOf(ctx)
	if err != nil {
		return delivery.Worker{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	worker, err := s.producer.options.Authenticator.AuthenticateWorker(ctx, token)
	if err != nil {
		return delivery.Worker{}, err
	}
	if refusal := s.producer.penalties.Check(worker.PodUID); refusal != nil {
		return delivery.Worker{}, refusal
	}
	return worker, nil
}

// refuseWorker answers the registration, which echoes a nonce, and ends the stream.
func (s service) refuseWorker(stream pb.WorkPulling_PullServer, refusal *transport.Refusal) error {
	p := s.producer
	p.NoteRefusal(refusal)
	first := make(chan *pb.WorkerFrame, 1)
	go func() {
		if frame, err := stream.Recv(); err == nil {
			first <- frame
		}
		close(first)
	}()
	select {
	case frame := <-first:
		if message, err := wire.DecodeFromWorker(frame); err == nil {
			if register, ok := message.(protocol.RegisterConsumer); ok {
				writer := workerWriter{stream: stream}
				_ = writer.send(protocol.RegistrationRefused{
					Nonce: register.Nonce, Code: refusal.Code, Reason: refusal.Reason, RetryAfter: refusal.RetryAfter,
				})
			}
		}
	case <-p.options.Clock.After(identityTimeout):
	case <-p.loop.done:
	}
	return refusal.Status()
}

// NoteRefusal counts a refusal, and logs it at most once a minute for each label. Those outside of this package, such as in the HTTP intake,
// are told here too.
func (p *Producer) NoteRefusal(refusal *transport.Refusal) {
	p.refused.Note(p.log, refusal, p.options.Clock.Now())
}

// receiveWorker hands the worker's messages to the loop.
func (s service) receiveWorker(stream pb.WorkPulling_PullServer, conn delivery.ConnID, worker delivery.Worker) error {
	p := s.producer
	budget := p.penalties.Budget(worker.PodUID)
	for {
		frame, err := stream.Recv()
		if err != nil {
			return err
		}
		message, err := wire.DecodeFromWorker(frame)
		if err != nil {
			if refusal := budget.Spend(); refusal != nil {
				p.NoteRefusal(refusal)
				p.log.Info("a worker sends malformed frames and has to wait", "pod", worker.PodName, "podUID", worker.PodUID, "cause", err.Error())
				return refusal.Status()
			}
			continue
		}
		if register, ok := message.(protocol.RegisterConsumer); ok {
			if refusal, hangUp := s.admit(stream.Context(), worker, register.Incarnation); refusal != nil {
				p.NoteRefusal(refusal)
				p.loop.post(func() { p.refuseRegistration(conn, register.Nonce, refusal, hangUp) })
				continue
			}
		}
		if !p.loop.do(func() { p.fromWorker(conn, message) }) {
			return status.Error(codes.Unavailable, "the producer is stopping")
		}
	}
}

// admit decides which process of the pod behind a stream may register on it. What is wrong with the stream ends it.
func (s service) admit(ctx context.Context, worker delivery.Worker, who protocol.Incarnation) (refusal *transport.Refusal, hangUp bool) {
	if who.PodUID != worker.PodUID {
		return &transport.Refusal{
			Code: protocol.RefusedIdentity, Label: transport.LabelPeerMismatch, RetryAfter: 10 * time.Second,
			Reason: "the registration names another pod than the token",
		}, true
	}
	incarnations, ok := s.producer.options.Authenticator.(transport.IncarnationAuthenticator)
	if !ok {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	if err := incarnations.AuthenticateIncarnation(ctx, worker, who.BootNonce); err != nil {
		return transport.AsRefusal(err), false
	}
	return nil, false
}

// refuseRegistration answers one registration. A binding that the stream has goes on: only evidence ends it.
func (p *Producer) refuseRegistration(conn delivery.ConnID, nonce string, refusal *transport.Refusal, hangUp bool) {
	out, ok := p.workers[conn]
	if !ok {
		return
	}
	p.log.V(1).Info("refused a registration", "label", refusal.Label, "reason", refusal.Reason)
	out.Offer(protocol.RegistrationRefused{Nonce: nonce, Code: refusal.Code, Reason: refusal.Reason, RetryAfter: refusal.RetryAfter})
	if hangUp {
		out.Close()
	}
}

// serve runs the two directions of a stream and returns when either has ended. Returning ends the other.
func serve[M any](ctx context.Context, out *transport.Outbox[M], send func(...M) error, receive func() error) error {
	ended := make(chan error, 2)
	go func() { ended <- out.Run(ctx, send) }()
	go func() { ended <- receive() }()
	select {
	case err := <-ended:
		out.Abort(context.Canceled)
		return err
	case <-out.Aborted():
		return status.Error(codes.ResourceExhausted, out.Err().Error())
	}
}

func (p *Producer) attachWorker(conn delivery.ConnID, worker delivery.Worker, out *transport.Outbox[protocol.ToWorker]) {
	if p.stopping || p.controller == nil {
		out.Close()
		return
	}
	p.workers[conn] = out
	p.podStreams.add(worker.PodUID, podStream{conn, out})
	if p.failure == nil {
		p.step(delivery.WorkerConnected{Conn: conn, Worker: worker})
	}
}

func (p *Producer) detachWorker(conn delivery.ConnID, podUID string) {
	p.podStreams.remove(podUID, conn)
	delete(p.workers, conn)
	p.step(delivery.WorkerDisconnected{Conn: conn})
}

// fromWorker steps the controller; a failed one cannot answer any more, so this does.
func (p *Producer) fromWorker(conn delivery.ConnID, message protocol.FromWorker) {
	out, ok := p.workers[conn]
	if !ok {
		return
	}
	if p.failure == nil {
		p.step(delivery.WorkerMessage{Conn: conn, Message: message})
		return
	}
	if register, ok := message.(protocol.RegisterConsumer); ok {
		out.Offer(protocol.RegistrationRefused{
			Nonce: register.Nonce, Code: protocol.RefusedUnavailable, RetryAfter: 2 * time.Second,
			Reason: "reliable delivery of this flow failed at stage " + string(p.failure.Stage),
		})
	}
}

// Produce serves one producer endpoint's stream.
func (s service) Produce(stream pb.WorkPulling_ProduceServer) error {
	p := s.producer
	submitter, err := s.submitter(stream.Context())
	if err != nil {
		refusal := transport.AsRefusal(err)
		p.NoteRefusal(refusal)
		return refusal.Status()
	}
	conn, out := p.nextConn(), transport.NewOutbox[protocol.ToProducer]()
	if !p.loop.post(func() { p.attachProducer(conn, out) }) {
		return status.Error(codes.Unavailable, "the producer is stopping")
	}
	defer p.loop.post(func() {
		delete(p.producers, conn)
		p.step(delivery.ProducerDetached{Conn: conn})
	})
	var batches atomic.Bool // the endpoint has sent one, and so takes them
	return serve(stream.Context(), out,
		func(messages ...protocol.ToProducer) error {
			for _, frame := range wire.EncodeToProducer(batches.Load(), messages...) {
				if err := stream.Send(frame); err != nil {
					return err
				}
			}
			return nil
		},
		func() error {
			budget := p.penalties.Budget(submitter.Subject)
			for {
				frame, err := p.patient(out, stream.Recv)
				if err != nil {
					return err
				}
				if frame.GetBatch() != nil {
					batches.Store(true)
				}
				if err := p.fromProducer(conn, out, frame, budget); err != nil {
					return err
				}
			}
		})
}

// submitter identifies the caller, and refuses one that has to cool down.
func (s service) submitter(ctx context.Context) (transport.Submitter, error) {
	submitter, err := s.identify(ctx)
	if err != nil {
		return transport.Submitter{}, err
	}
	if refusal := s.producer.penalties.Check(submitter.Subject); refusal != nil {
		return transport.Submitter{}, refusal
	}
	return submitter, nil
}

func (s service) identify(ctx context.Context) (transport.Submitter, error) {
	if s.subject != "" {
		return transport.Submitter{Subject: s.subject}, nil
	}
	token, err := transport.BearerOf(ctx)
	if err != nil {
		return transport.Submitter{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	return s.producer.options.Authenticator.AuthenticateSubmitter(ctx, token, transport.VerbCreate)
}

func (p *Producer) attachProducer(conn delivery.ConnID, out *transport.Outbox[protocol.ToProducer]) {
	if p.stopping || p.controller == nil || p.failure != nil {
		out.Close()
		return
	}
	p.producers[conn] = out
	p.step(delivery.ProducerAttached{Conn: conn, MaxCredits: p.options.StreamCredits, Notify: true})
}

// fromProducer hands the messages of a frame to the loop. What breaks a limit is refused alone; an error ends the stream.
func (p *Producer) fromProducer(conn delivery.ConnID, out *transport.Outbox[protocol.ToProducer], frame *pb.ProducerFrame, budget *transport.Budget) error {
	messages, malformed := wire.DecodeFromProducer(frame)
	for _, m := range malformed {
		if refusal := budget.Spend(); refusal != nil {
			p.NoteRefusal(refusal)
			return refusal.Status()
		}
		if m.Submission != nil {
			out.Offer(invalidRefusal(m))
		}
	}
	if len(messages) == 0 {
		return nil
	}
	events := make([]delivery.ProducerMessage, len(messages))
	for i, message := range messages {
		events[i] = delivery.ProducerMessage{Conn: conn, Message: message}
		if produced, ok := message.(protocol.Produced); ok {
			events[i].Digest = Digest(produced.Job)
		}
	}
	if !p.loop.do(func() { p.stepTogether(events) }) {
		return status.Error(codes.Unavailable, "the producer is stopping")
	}
	return nil
}

// errSilent ends a producer stream that says nothing, so that others get its credit.
var errSilent = errors.New("the stream was silent for longer than the flow allows")

// patient waits for the next frame, but not for longer than the flow allows.
func (p *Producer) patient(out *transport.Outbox[protocol.ToProducer], receive func() (*pb.ProducerFrame, error)) (*pb.ProducerFrame, error) {
	if limit := time.Duration(p.silence.Load()); limit > 0 {
		timer := time.AfterFunc(limit, func() { out.Abort(errSilent) })
		defer timer.Stop()
	}
	return receive()
}
