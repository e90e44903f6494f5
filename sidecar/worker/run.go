package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
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

	ConfigFile, CAFile, TLSDir, TokenFile, DrainSocket string
	// AppSocket is where the app opens its streams.
	AppSocket string
	// RunningFile keeps the handlers in progress across a restart of this process; empty for nowhere.
	RunningFile                                   string
	HealthAddress, MetricsAddress, ControlAddress string
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

// sidecar is one running worker sidecar.
type sidecar struct {
	Options
	app      *app
	worker   *endpoint.Worker
	document atomic.Pointer[config.Document[runtimeconfig.Worker]]
	// telling orders what the worker is told about the app.
	telling sync.Mutex
	// serving is set once everything that the operator or prestop may call is listening.
	serving atomic.Bool
}

// Run runs a worker sidecar until ctx ends, and then drains it. The first configuration has to be there and valid.
func Run(ctx context.Context, options Options) error {
	document, err := config.Read[runtimeconfig.Worker](options.ConfigFile)
	if err != nil {
		return err
	}
	// What the drain needs outlives ctx: it all ends with lifetime, which ends with the drain or with the first part that fails.
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	parts, lifetime := errgroup.WithContext(base)
	registry := prometheus.NewRegistry()
	// The port comes first: who has it is the only sidecar of the pod, and no other may touch the files and the socket of that one.
	listener, err := net.Listen("tcp", options.ControlAddress)
	if err != nil {
		return fmt.Errorf("listening for the operator: %w", err)
	}
	defer listener.Close()
	set, left, err := openRunning(options.RunningFile)
	if err != nil {
		return err
	}
	defer set.Close()
	s := newSidecar(lifetime, options, document, set, left, registry)
	door, err := drain.Listen(options.DrainSocket, s.worker)
	if err != nil {
		return err
	}
	beside, err := socket.Serve(options.AppSocket, handler.MaxAppFrameBytes, s.app.streams.Register)
	if err != nil {
		return err
	}
	operator, err := s.answerOperator(listener, registry)
	if err != nil {
		return err
	}
	s.serving.Store(true)

	// The streams of the app end after the worker: it must not take the end of a stream for the app's word.
	streams, hangUp := context.WithCancel(context.WithoutCancel(lifetime))
	parts.Go(func() error {
		defer hangUp()
		return s.worker.Run(lifetime)
	})
	parts.Go(func() error { return beside.Run(streams, 0) })
	parts.Go(func() error { return door.Run(lifetime) })
	parts.Go(func() error { return operator.run(lifetime) })
	parts.Go(func() error { return health.Serve(lifetime, options.HealthAddress, s.checks()) })
	parts.Go(func() error { return health.ServeHTTP(lifetime, options.MetricsAddress, telemetry.Handler(registry)) })
	parts.Go(func() error { return s.watch(lifetime, document) })
	parts.Go(func() error {
		select {
		case <-ctx.Done():
			s.drainAtStop(lifetime)
			stop()
		case <-lifetime.Done(): // another part failed
		}
		return nil
	})
	if err := parts.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("running the worker sidecar: %w", err)
	}
	return nil
}

// newSidecar makes the consumer and the app's handler, whose requests end with lifetime at the latest.
func newSidecar(
	lifetime context.Context, options Options, document config.Document[runtimeconfig.Worker],
	set runningSet, left []endpoint.LeftRun, registry *prometheus.Registry,
) *sidecar {
	s := &sidecar{Options: options}
	s.document.Store(&document)
	s.app = newApp(lifetime, options.Log.WithName("app"), document.Value, options.AppHost, telemetry.NewHandlerSeconds(registry), hooks{
		changed: s.tell, earlierEnded: func() { s.worker.AppReplaced() },
		concurrency: func() int { return consumerConfig(s.document.Load().Value).Concurrency },
		timeout:     func() time.Duration { return consumerConfig(s.document.Load().Value).HandlerTimeout },
	})
	s.worker = endpoint.NewWorker(endpoint.WorkerOptions{
		Config:      consumerConfig(document.Value),
		Incarnation: options.Incarnation,
		Flows:       s.sources(),
		Log:         options.Log.WithName("consumer"),
		Running:     set,
		Left:        left,
	})
	s.app.retarget(document.Value)
	registry.MustRegister(telemetry.NewWorker(s.worker.Status), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s
}

// watch follows the app's port and the configuration until ctx ends.
func (s *sidecar) watch(ctx context.Context, document config.Document[runtimeconfig.Worker]) error {
	var both sync.WaitGroup
	both.Go(func() { handler.Probe(ctx, s.app.where, s.app.poke, s.orphaned, s.appSeen) })
	both.Go(func() { config.Watch(ctx, s.Log.WithName("config"), s.ConfigFile, document, s.ConfigPoll, s.apply) })
	both.Wait()
	return nil
}

// drainAtStop runs after SIGTERM. A native sidecar gets it after the app's containers ended, so what still runs has lost its app.
func (s *sidecar) drainAtStop(ctx context.Context) {
	s.Log.Info("Draining before the end", "timeout", s.StopTimeout.String())
	s.worker.StartDrain()
	timer := time.NewTimer(s.StopTimeout)
	defer timer.Stop()
	select {
	case <-s.worker.Drained():
		s.Log.Info("Drained")
	case <-timer.C:
		status := s.worker.Status()
		s.Log.Info("Ending before the drain was over; the flow redelivers what is left",
			"running", status.Running, "unsettled", status.Unsettled)
	case <-ctx.Done():
	}
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
}

func (s *sidecar) configHash() string { return s.document.Load().Hash }
