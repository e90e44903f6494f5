package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/sidecar/config"
	"github.com/workpulling/workpulling/sidecar/drain"
	"github.com/workpulling/workpulling/sidecar/handler"
	"github.com/workpulling/workpulling/sidecar/health"
	"github.com/workpulling/workpulling/sidecar/socket"
	"github.com/workpulling/workpulling/sidecar/telemetry"
)

// Options says where a worker sidecar finds its world. DefaultOptions gives the paths and ports that the operator builds pods with.
type Options struct {
	Log         logr.Logger
	Incarnation protocol.Incarnation

	ConfigFile, CAFile, TLSDir, TokenFile string
	// APIDir holds what a client of the API server needs, for the Lease of the pod, which is called PodName. Without a token in it the worker
	// has no Lease. Lease replaces that at the API server, for tests.
	APIDir, PodName string
	Lease           Lease
	// DrainSocket is where prestop asks for a drain, AppSocket where the app opens its streams; empty for nowhere.
	DrainSocket, AppSocket string
	// RunningFile keeps the handlers in progress across a restart of this process; empty for nowhere.
	RunningFile string
	// ControlAddress is listened on for the operator. Each of these may be empty for nowhere.
	ControlAddress, HealthAddress, MetricsAddress string
	// AppHost is where the app listens ("127.0.0.1").
	AppHost string

	// ConfigPoll is how often the configuration is looked at again (2 s).
	ConfigPoll time.Duration
	// StopTimeout bounds the drain after SIGTERM, when the app is gone already (20 s). Kubelet's grace period bounds it too.
	StopTimeout time.Duration
}

// DefaultOptions returns the options of a sidecar in its place, which is a pod.
func DefaultOptions(log logr.Logger, incarnation protocol.Incarnation, place runtimeconfig.Place) Options {
	return Options{
		Log:            log,
		Incarnation:    incarnation,
		ConfigFile:     place.Path(runtimeconfig.ConfigFile),
		CAFile:         place.Path(runtimeconfig.CAFile),
		TLSDir:         place.Path(runtimeconfig.TLSDir),
		TokenFile:      place.Path(runtimeconfig.TokenFile),
		APIDir:         place.Path(runtimeconfig.APIDir),
		PodName:        os.Getenv(runtimeconfig.EnvPodName),
		DrainSocket:    place.Path(runtimeconfig.DrainSocket),
		AppSocket:      place.Path(runtimeconfig.WorkerSocket),
		RunningFile:    place.Path(runtimeconfig.RunningFile),
		HealthAddress:  place.Address(runtimeconfig.PortHealth),
		MetricsAddress: place.Address(runtimeconfig.PortMetrics),
		ControlAddress: place.Address(runtimeconfig.PortTransport),
		AppHost:        place.AppHost(),
		ConfigPoll:     2 * time.Second,
		StopTimeout:    20 * time.Second,
	}
}

// Sidecar is one worker sidecar, which New has made and Run runs.
type Sidecar struct{ parts *sidecar }

// sidecar are the parts.
type sidecar struct {
	Options
	registry *prometheus.Registry
	// first is the configuration that the sidecar began with, document the one in force.
	first    config.Document[runtimeconfig.Worker]
	document atomic.Pointer[config.Document[runtimeconfig.Worker]]
	app      *app
	worker   *endpoint.Worker
	listener net.Listener // for the operator; nil without a ControlAddress
	set      runningSet
	tenant   *tenant // nil where the pod has no Lease
	// lifetime is what the drain needs. It outlives the context of Run and ends with the drain, or with the first part that fails.
	lifetime context.Context //nolint:containedctx // the life of all parts
	parts    *errgroup.Group
	stop     context.CancelFunc
	// telling orders what the worker is told about the app.
	telling sync.Mutex
	// serving is set once everything that the operator or prestop may call is listening.
	serving atomic.Bool
}

// New makes a worker sidecar. The first configuration has to be there and valid.
func New(options Options) (*Sidecar, error) {
	document, err := config.Read[runtimeconfig.Worker](options.ConfigFile)
	if err != nil {
		return nil, err
	}
	s := &sidecar{Options: options, first: document, registry: prometheus.NewRegistry()}
	// The port comes first: who has it is the only sidecar of the pod, and no other may touch the files and the socket of that one.
	if options.ControlAddress != "" {
		if s.listener, err = net.Listen("tcp", options.ControlAddress); err != nil {
			return nil, fmt.Errorf("listening for the operator: %w", err)
		}
	}
	set, left, err := openRunning(options.RunningFile)
	if err != nil {
		s.close()
		return nil, err
	}
	s.set = set
	base, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.parts, s.lifetime = errgroup.WithContext(base)
	s.makeWorker(left)
	if s.tenant, err = s.newTenant(); err != nil {
		s.close()
		return nil, err
	}
	return &Sidecar{s}, nil
}

// Run runs a worker sidecar until ctx ends, and then drains it. The first configuration has to be there and valid.
func Run(ctx context.Context, options Options) error {
	s, err := New(options)
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// Run runs the sidecar until ctx ends, and then drains it. It is called once.
func (s *Sidecar) Run(ctx context.Context) error { return s.parts.run(ctx) }

// Status is what the worker has on its hands.
func (s *Sidecar) Status() delivery.ConsumerStatus { return s.parts.worker.Status() }

// Ready returns nil while the app answers and the worker is not draining, and else what is missing.
func (s *Sidecar) Ready() error { return s.parts.ready() }

func (s *sidecar) run(ctx context.Context) error {
	defer s.close()
	if err := s.serve(); err != nil {
		return err
	}
	lifetime := s.lifetime
	if s.HealthAddress != "" {
		s.parts.Go(func() error { return health.Serve(lifetime, s.HealthAddress, s.checks()) })
	}
	if s.MetricsAddress != "" {
		s.parts.Go(func() error { return health.ServeHTTP(lifetime, s.MetricsAddress, telemetry.Handler(s.registry)) })
	}
	s.parts.Go(func() error { return s.watch(lifetime) })
	s.parts.Go(func() error {
		select {
		case <-ctx.Done():
			s.drainAtStop(lifetime)
			s.stop()
		case <-lifetime.Done(): // another part failed
		}
		return nil
	})
	if err := s.parts.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("running the worker sidecar: %w", err)
	}
	return nil
}

// serve opens the doors for the app, prestop and the operator, those that the options name, and then starts the worker.
func (s *sidecar) serve() error {
	// The streams of the app end after the worker: it must not take the end of a stream for the app's word.
	streams, hangUp := context.WithCancel(context.Background())
	if err := s.open(streams); err != nil {
		hangUp()
		return err
	}
	s.serving.Store(true)
	if s.tenant != nil {
		s.parts.Go(func() error { return s.holdLease(s.lifetime) })
	}
	s.parts.Go(func() error {
		defer hangUp()
		return s.worker.Run(s.lifetime)
	})
	return nil
}

// open opens the doors; that of the app is open until streams ends.
func (s *sidecar) open(streams context.Context) error {
	if s.AppSocket != "" {
		beside, err := socket.Serve(s.AppSocket, handler.MaxAppFrameBytes, s.app.streams.Register)
		if err != nil {
			return err
		}
		s.parts.Go(func() error { return beside.Run(streams, 0) })
	}
	if s.DrainSocket != "" {
		door, err := drain.Listen(s.DrainSocket, s.worker)
		if err != nil {
			return err
		}
		s.parts.Go(func() error { return door.Run(s.lifetime) })
	}
	if s.listener != nil {
		operator, err := s.answerOperator(s.listener, s.registry)
		if err != nil {
			return err
		}
		s.parts.Go(func() error { return operator.run(s.lifetime) })
	}
	return nil
}

// close gives up what New has opened.
func (s *sidecar) close() {
	if s.stop != nil {
		s.stop()
		_ = s.parts.Wait()
	}
	if s.listener != nil {
		s.listener.Close()
	}
	if s.set != nil {
		s.set.Close()
	}
}

// makeWorker makes the consumer and the app's handler, whose requests end with the lifetime at the latest.
func (s *sidecar) makeWorker(left []endpoint.LeftRun) {
	document := s.first
	s.document.Store(&document)
	s.app = newApp(s.lifetime, s.Log.WithName("app"), document.Value, s.AppHost, telemetry.NewHandlerSeconds(s.registry), hooks{
		changed: s.tell, earlierEnded: func() { s.worker.AppReplaced() },
		concurrency: func() int { return consumerConfig(s.document.Load().Value).Concurrency },
		timeout:     func() time.Duration { return handlerTimeout(&s.document.Load().Value) },
	})
	s.worker = endpoint.NewWorker(endpoint.WorkerOptions{
		Config:      consumerConfig(document.Value),
		Incarnation: s.Incarnation,
		Flows:       s.sources(),
		Log:         s.Log.WithName("consumer"),
		Running:     s.set,
		Left:        left,
	})
	s.app.retarget(document.Value)
	telemetry.RegisterAppStreams(s.registry, s.app.streams.Open)
	s.registry.MustRegister(telemetry.NewWorker(s.worker.Status), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// watch follows the app's port and the configuration until ctx ends.
func (s *sidecar) watch(ctx context.Context) error {
	var both sync.WaitGroup
	both.Go(func() { handler.Probe(ctx, s.app.where, s.app.poke, s.orphaned, s.appSeen) })
	both.Go(func() { config.Watch(ctx, s.Log.WithName("config"), s.ConfigFile, s.first, s.ConfigPoll, s.apply) })
	both.Wait()
	return nil
}

// drainAtStop runs after SIGTERM. A native sidecar gets it after the app's containers ended, so what still runs has lost its app.
func (s *sidecar) drainAtStop(ctx context.Context) {
	s.drain(ctx, func() bool { return false })
}

// hopeEvery is how often a drain asks whether there is anything left to wait for.
const hopeEvery = 100 * time.Millisecond

// drain lets what runs end and waits until the flows have heard of it, for the StopTimeout at most, and no longer than there is hope.
func (s *sidecar) drain(ctx context.Context, hopeless func() bool) {
	s.Log.Info("Draining before the end", "timeout", s.StopTimeout.String())
	s.worker.StartDrain()
	timer, ticker := time.NewTimer(s.StopTimeout), time.NewTicker(hopeEvery)
	defer timer.Stop()
	defer ticker.Stop()
	for over := false; !over; {
		select {
		case <-s.worker.Drained():
			s.Log.Info("Drained")
			return
		case <-ctx.Done():
			return
		case <-ticker.C:
			over = hopeless()
		case <-timer.C:
			over = true
		}
	}
	status := s.worker.Status()
	s.Log.Info("Ending before the drain was over; the flow redelivers what is left", "running", status.Running, "unsettled", status.Unsettled)
}

// orphaned says whether handlers of an earlier process hold slots, which a restart of the app frees.
func (s *sidecar) orphaned() bool { return s.worker.Status().Orphaned > 0 }

func (s *sidecar) appSeen(sight handler.Sight) {
	s.Log.Info("The app's port changed", "listening", sight.Ready, "replaced", sight.Replaced, "address", s.app.where().Address())
	if sight.Replaced {
		s.worker.AppReplaced()
	}
	s.app.listens.Store(sight.Ready)
	s.tell()
}

// tell tells the worker how many jobs the app takes, and whether it takes any.
func (s *sidecar) tell() {
	s.telling.Lock()
	defer s.telling.Unlock()
	s.worker.Reconfigure(s.consumerConfig())
	s.worker.SetAppReady(s.app.ready() == nil)
}

// consumerConfig is what the document says, as far as the app goes along.
func (s *sidecar) consumerConfig() delivery.ConsumerConfig {
	config := consumerConfig(s.document.Load().Value)
	config.Concurrency = s.app.concurrency(config.Concurrency)
	return config
}

func (s *sidecar) apply(next config.Document[runtimeconfig.Worker]) {
	s.document.Store(&next)
	s.app.retarget(next.Value)
	s.tell()
	if s.tenant != nil {
		s.tenant.poke()
	}
}

func (s *sidecar) configHash() string { return s.document.Load().Hash }
