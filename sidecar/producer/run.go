package producer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/protocol/wire"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/sidecar/config"
	"github.com/workpulling/workpulling/sidecar/health"
	"github.com/workpulling/workpulling/sidecar/intake"
	"github.com/workpulling/workpulling/sidecar/socket"
	"github.com/workpulling/workpulling/sidecar/telemetry"
)

// Sidecar is one producer sidecar, which New has made and Run runs.
type Sidecar struct{ parts *sidecar }

// New makes a producer sidecar and opens its listeners. The first configuration and the certificate have to be there and valid.
func New(options Options) (*Sidecar, error) {
	document, err := config.Read[runtimeconfig.Producer](options.ConfigFile)
	if err != nil {
		return nil, err
	}
	s := &sidecar{Options: options, first: document, registry: prometheus.NewRegistry()}
	s.wanted.Store(&document)
	s.document.Store(&document)
	if err := s.build(document.Value); err != nil {
		return nil, err
	}
	s.registry.MustRegister(telemetry.NewProducer(s.member.stats), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &Sidecar{s}, nil
}

// Run runs a producer sidecar until ctx ends, and then stops it in order.
func Run(ctx context.Context, options Options) error {
	s, err := New(options)
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// Run runs the sidecar until ctx ends, and then stops it in order. It is called once.
func (s *Sidecar) Run(ctx context.Context) error { return s.parts.run(ctx) }

// Address is where workers find the sidecar: that of Options.TransportAddress, with the port that was given out for port 0.
func (s *Sidecar) Address() string { return s.parts.streams.listener.Addr().String() }

// Intake answers the requests of the HTTPS intake, for a program that has a listener of its own. Such a listener is closed before the
// context of Run ends.
func (s *Sidecar) Intake() http.Handler { return s.parts.door.Handler() }

// Stats are the figures of the flow; an error while there are none, because the sidecar stands by or has stopped.
func (s *Sidecar) Stats(ctx context.Context) (endpoint.ProducerStats, error) {
	return s.parts.member.stats(ctx)
}

// sidecar are the parts.
type sidecar struct {
	Options
	registry *prometheus.Registry
	// first is the configuration that the sidecar began with, wanted the newest, document the one in force.
	first            config.Document[runtimeconfig.Producer]
	wanted, document atomic.Pointer[config.Document[runtimeconfig.Producer]]
	volume           *volume
	member           *member
	relay            *intake.Relay
	certificate      *transport.Certificate
	guard            *fencing.Guard // nil with an Authenticator of the options
	streams          *streams
	beside           *socket.Server // nil without a ProducerSocket
	door             *intake.Intake
	intake           []*intake.Server
	serving          atomic.Bool
}

// build makes the parts and opens the listeners.
func (s *sidecar) build(document runtimeconfig.Producer) error {
	volume, err := newVolume(s.Options, document)
	if err != nil {
		return err
	}
	s.volume = volume
	authenticator, err := s.authenticator(document)
	if err != nil {
		return err
	}
	if s.member, err = s.newMember(document, authenticator); err != nil {
		return err
	}
	if s.guard != nil {
		s.member.verification = s.guard.Verification
		telemetry.RegisterVerification(s.registry, s.verification)
	}
	telemetry.RegisterMember(s.registry, func() bool { return s.member.producer() != nil }, s.member.fenced.Load)
	telemetry.RegisterVolume(s.registry, s.volume.locked)
	certificate, err := transport.NewCertificate(filepath.Join(s.TLSDir, "tls.crt"), filepath.Join(s.TLSDir, "tls.key"))
	if err != nil {
		return err
	}
	s.certificate = certificate
	telemetry.RegisterCertificate(s.registry, certificate, func() (transport.Bundle, error) { return transport.ReadBundle(s.CAFile) })
	if s.streams, err = listenStreams(s.TransportAddress, certificate, &services{member: s.member, peer: s.peer}); err != nil {
		return err
	}
	subject := ownSubject(s.APIDir, document.Namespace)
	if s.ProducerSocket != "" {
		beside := &services{member: s.member, peer: s.ownPeer, subject: subject}
		if s.beside, err = socket.Serve(s.ProducerSocket, wire.MaxMessageBytes, beside.registerBeside); err != nil {
			return err
		}
	}
	return s.openIntake(document, certificate, authenticator, subject, telemetry.NewAnswers(s.registry))
}

// failed remembers a terminal failure for the next process of this pod.
func (s *sidecar) failed(f delivery.Failed) {
	if err := recordHalt(s.HaltFile, s.document.Load().Value, f); err != nil {
		s.Log.Error(err, "A restart of this container will load the queue again")
	}
}

// authenticator checks peers against the API server, unless the options say otherwise.
func (s *sidecar) authenticator(document runtimeconfig.Producer) (transport.Authenticator, error) {
	if s.Options.Authenticator != nil {
		return s.Options.Authenticator, nil
	}
	guard, err := fencing.NewFromFiles(fencing.Options{
		Namespace: document.Namespace, Flow: document.Flow, StatefulSet: runtimeconfig.ProducerName(document.Flow),
		Audience:               runtimeconfig.TokenAudience,
		AllowedServiceAccounts: func() []string { return s.document.Load().Value.AllowedServiceAccounts },
		TrustNamespace:         s.trustsNamespace,
		OnPodGone:              func(uid string) { s.member.podGone(uid) },
		StateDir:               s.DataDir, FlowUID: document.FlowUID,
		OnIncarnationOver: func(uid, boot, reason string) { s.member.incarnationOver(uid, boot, reason) },
		Log:               s.Log.WithName("fencing"),
	}, s.APIDir)
	if err != nil {
		return nil, fmt.Errorf("preparing the identity checks: %w", err)
	}
	s.guard = guard
	return guard, nil
}

// trustsNamespace says whether pods of the namespace submit without a token.
func (s *sidecar) trustsNamespace() bool { return s.document.Load().Value.TrustNamespace }

// neighbours knows who may submit without a token; nil where nobody ever may.
func (s *sidecar) neighbours() intake.Neighbours {
	switch {
	case s.Options.Neighbours != nil:
		return s.Options.Neighbours(s.trustsNamespace)
	case s.guard != nil:
		telemetry.RegisterNeighbours(s.registry, s.trustsNamespace, s.guard.Neighbours().Outcomes)
		return s.guard.Neighbours()
	}
	return nil
}

// verification is what the metrics tell of the identity checks.
func (s *sidecar) verification() telemetry.Verification {
	v := s.guard.Verification()
	return telemetry.Verification{
		Offline: v.Offline, Reviewed: v.Reviewed, BadRecords: v.BadRecords, KeysAge: v.KeysAge, KeysRead: v.KeysRead,
	}
}

func (s *sidecar) openIntake(
	document runtimeconfig.Producer, certificate *transport.Certificate, authorizer intake.Authorizer, subject string, answers *telemetry.Answers,
) error {
	if s.member.shared {
		s.relay = intake.NewRelay(s.member.route, s.TokenFile, &http.Transport{TLSClientConfig: transport.ClientTLS(s.CAFile, s.host())})
	}
	s.door = intake.New(intake.Options{
		Name: document.Flow, Flow: flow{s.member}, Authorizer: authorizer, Neighbours: s.neighbours(), Relay: s.relay,
		MaxPayload: func() int { return maxPayload(s.document.Load().Value) },
		Volatile:   document.QueueType == queueMemory,
		Log:        s.Log.WithName("intake"), OnAnswer: answers.Count, OnRefusal: s.member.noteRefusal,
	})
	if s.IntakeAddress != "" {
		secure, err := intake.ListenTLS(s.IntakeAddress, transport.ServerTLS(certificate), s.door.Handler())
		if err != nil {
			return err
		}
		s.intake = append(s.intake, secure)
	}
	if s.IntakeSocket != "" {
		beside, err := intake.ListenUnix(s.IntakeSocket, s.door.LocalHandler(subject))
		if err != nil {
			return err
		}
		s.intake = append(s.intake, beside)
	}
	return nil
}

// run runs the parts until ctx ends or one of them fails, and stops them in order: intake, controller, streams, the rest.
func (s *sidecar) run(ctx context.Context) error {
	defer s.volume.Close()
	if s.relay != nil {
		defer s.relay.Close()
	}
	base, stopBase := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBase()
	parts, base := errgroup.WithContext(base)
	intakeCtx, stopIntake := context.WithCancel(base)
	controllerCtx, stopController := context.WithCancel(base)
	defer stopIntake()
	defer stopController()

	doors, doorsDone := new(errgroup.Group), make(chan struct{})
	for _, server := range s.intake {
		doors.Go(func() error { return server.Run(intakeCtx) })
	}
	parts.Go(func() error {
		defer close(doorsDone)
		return doors.Wait()
	})
	controllerDone := make(chan struct{})
	parts.Go(func() error {
		defer close(controllerDone)
		return s.member.run(controllerCtx)
	})
	parts.Go(func() error { return s.streams.run(base) })
	if s.beside != nil {
		parts.Go(func() error { return s.beside.Run(base, closingTime) })
	}
	if s.HealthAddress != "" {
		parts.Go(func() error { return health.Serve(base, s.HealthAddress, s.checks()) })
	}
	if s.MetricsAddress != "" {
		parts.Go(func() error { return health.ServeHTTP(base, s.MetricsAddress, telemetry.Handler(s.registry)) })
	}
	parts.Go(func() error {
		config.Watch(base, s.Log.WithName("config"), s.ConfigFile, s.first, s.ConfigPoll, s.apply)
		return nil
	})
	parts.Go(func() error {
		s.reporter().run(base)
		return nil
	})
	parts.Go(func() error {
		s.certificate.Follow(base, s.Log.WithName("certificate"))
		return nil
	})
	if s.guard != nil {
		parts.Go(func() error { return s.guard.Run(base) })
	}
	parts.Go(func() error {
		select {
		case <-ctx.Done():
		case <-base.Done(): // a part failed
			return nil
		}
		s.Log.Info("Stopping")
		if s.member.shared {
			stopController()
			<-controllerDone
			s.linger(base)
		}
		stopIntake()
		<-doorsDone
		stopController()
		<-controllerDone
		stopBase()
		return nil
	})
	s.serving.Store(true)
	if err := parts.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("running the producer sidecar: %w", err)
	}
	return nil
}

// apply puts a new version of the configuration in force.
func (s *sidecar) apply(next config.Document[runtimeconfig.Producer]) {
	if was := s.document.Load().Value.QueueType; was != next.Value.QueueType {
		s.Log.Info("The type of the queue changes with the next start of this pod only", "running", was, "configured", next.Value.QueueType)
	}
	s.volume.setWindow(deduplication(next.Value))
	former := s.wanted.Swap(&next)
	if former.Value.RecoverNonce != next.Value.RecoverNonce {
		if err := forgetHalt(s.HaltFile); err != nil {
			s.Log.Error(err, "A failure that was answered would count again if spec.recoverNonce were changed back")
		}
	}
	if p := s.member.producer(); p != nil {
		configure(p, next.Value)
		if former.Value.RecoverNonce != next.Value.RecoverNonce {
			p.Recover()
		}
	}
	if was := s.document.Load().Value.TrustNamespace; was != next.Value.TrustNamespace {
		s.Log.Info("Who may submit without a token changes", "podsOfTheNamespace", next.Value.TrustNamespace)
	}
	s.document.Store(&next) // last, because its hash tells the operator that all of it is in force
}

func (s *sidecar) reporter() *reporter {
	return &reporter{
		log: s.Log.WithName("report"), member: s.member, caFile: s.CAFile, token: s.TokenFile,
		document: func() (runtimeconfig.Producer, string) {
			document := s.document.Load()
			return document.Value, document.Hash
		},
	}
}

// streams serves workers and producer endpoints over gRPC.
type streams struct {
	listener net.Listener
	server   *grpc.Server
}

func listenStreams(address string, certificate *transport.Certificate, services *services) (*streams, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for workers: %w", err)
	}
	server := transport.NewServer(transport.ServerTLS(certificate))
	services.register(server)
	return &streams{listener: listener, server: server}, nil
}

// closingTime is how long streams get to send what is queued.
const closingTime = 2 * time.Second

func (s *streams) run(ctx context.Context) error {
	finished := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(finished)
		timer := time.AfterFunc(closingTime, s.server.Stop)
		defer timer.Stop()
		s.server.GracefulStop()
	})
	if err := s.server.Serve(s.listener); err != nil {
		stop()
		return fmt.Errorf("serving workers: %w", err)
	}
	<-finished
	return nil
}
