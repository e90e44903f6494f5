package ours

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling/internal/heap"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/sharedsecret"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/producer"
	"github.com/workpulling/workpulling/sidecar/worker"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// Sidecars is a producing app and a worker app, each beside its sidecar. The hop between the sidecars is gRPC with TLS.
type Sidecars struct {
	Backend Backend
	// Streams says that the apps speak gRPC with their sidecars; otherwise they speak HTTP.
	Streams bool
}

// containerBytes is the memory limit that a sidecar has by default.
const containerBytes = 512 << 20

// httpConcurrency is how many handlers of one worker run at once: a request is on its way for long.
const httpConcurrency = 16

// Name implements trial.System.
func (s *Sidecars) Name() string {
	if s.Streams {
		return "sidecars-grpc-" + string(s.Backend)
	}
	return "sidecars-http-" + string(s.Backend)
}

// Settings implements trial.System.
func (s *Sidecars) Settings() string {
	ends := fmt.Sprintf("CloudEvents in batches over HTTP on a Unix socket in, one POST a job out, %d at once a worker", httpConcurrency)
	if s.Streams {
		ends = fmt.Sprintf("%d gRPC producer streams on a Unix socket in, one gRPC stream a worker on a Unix socket out", produceStreams)
	}
	return fmt.Sprintf("producing app, producer sidecar, worker sidecars, worker app, each in a process of its own, the sidecars with their default memory limit; gRPC with TLS 1.3 between the "+
		"sidecars; %s; %s", ends, s.Backend.settings())
}

// Available implements trial.System.
func (*Sidecars) Available() error { return nil }

// Processes implements trial.System. An app that opens streams starts after its sidecar, and one that listens before.
func (s *Sidecars) Processes(stage *trial.Stage) []trial.Process {
	sidecars, apps := trial.Process{Name: "worker-sidecar", Serve: []string{"workers"}}, trial.Workers(stage)
	processes := []trial.Process{{Name: "producer-sidecar", Serve: []string{"producer"}}}
	if s.Streams {
		processes = append(append(processes, sidecars), apps...)
	} else {
		processes = append(append(processes, apps...), sidecars)
	}
	return append(processes, trial.Process{Name: "producer", Produces: true})
}

const (
	flowName  = "bench"
	namespace = "bench"
	toldApp   = "app"
)

// Serve implements trial.System.
func (s *Sidecars) Serve(ctx context.Context, stage *trial.Stage, role string) (func() error, error) {
	heap.Bound(logr.Discard(), memlimit.Limit(containerBytes))
	if role == "producer" {
		return s.serveProducer(ctx, stage)
	}
	var stops []func() error
	stop := func() error {
		var errs []error
		for _, stop := range stops {
			errs = append(errs, stop())
		}
		return errors.Join(errs...)
	}
	for number := range stage.Workers {
		ended, err := s.serveWorker(ctx, stage, number)
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		stops = append(stops, ended)
	}
	return stop, nil
}

// identity is where the producer's sidecar makes the identity of a trial.
func identity(stage *trial.Stage) sharedsecret.Dir { return sharedsecret.Dir(stage.Path("identity")) }

// pod makes the directory of a sidecar with its token.
func pod(stage *trial.Stage, name string) (dir string, err error) {
	dir = stage.Path(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, identity(stage).WriteToken(filepath.Join(dir, "token"), name)
}

func caFile(stage *trial.Stage) string {
	return filepath.Join(string(identity(stage)), sharedsecret.CAFile)
}

// configure writes the document that the operator would.
func configure[T runtimeconfig.Producer | runtimeconfig.Worker](dir string, document T) error {
	text, _, err := runtimeconfig.Marshal(document)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600)
}

// addresses are free ones of loopback.
func addresses(n int) ([]string, error) {
	found := make([]string, n)
	for i := range found {
		port, err := transporttest.FindPort()
		if err != nil {
			return nil, err
		}
		found[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	return found, nil
}

func (s *Sidecars) serveProducer(ctx context.Context, stage *trial.Stage) (func() error, error) {
	made, err := sharedsecret.Make(string(identity(stage)), time.Now())
	if err != nil {
		return nil, err
	}
	authenticator, err := made.Authenticator()
	if err != nil {
		return nil, err
	}
	dir, err := pod(stage, "producer")
	if err != nil {
		return nil, err
	}
	at, err := addresses(4)
	if err != nil {
		return nil, err
	}
	if err := configure(dir, s.flow()); err != nil {
		return nil, err
	}
	stop := runSidecar(ctx, func(ctx context.Context) error {
		return producer.Run(ctx, producer.Options{
			Log: logr.Discard(), Incarnation: protocol.Incarnation{PodUID: "producer", BootNonce: "bench"}, Authenticator: authenticator,
			ConfigFile: filepath.Join(dir, "config.json"), CAFile: caFile(stage), TLSDir: string(identity(stage)),
			TokenFile: filepath.Join(dir, "token"), APIDir: dir, DataDir: filepath.Join(dir, "data"), LossFile: filepath.Join(dir, "loss"),
			HaltFile: filepath.Join(dir, "halt"), IntakeSocket: stage.Path("intake.sock"), ProducerSocket: producerSocket(stage), ConfigPoll: 2 * time.Second,
			HealthAddress: at[0], MetricsAddress: at[1], TransportAddress: at[2], IntakeAddress: at[3],
		})
	})
	if err := answers(at[0], "readyz"); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, stage.Tell(toldAddress, at[2])
}

// flow is the document of a flow with all defaults.
func (s *Sidecars) flow() runtimeconfig.Producer {
	queueType := map[Backend]string{Memory: "Memory", Local: "Local"}[s.Backend]
	return runtimeconfig.Producer{
		Namespace: namespace, Flow: flowName, FlowUID: flowUID, QueueType: queueType, Intake: runtimeconfig.IntakeOpen,
		BacklogMaxJobs: 1_000_000, BacklogMaxBytes: 1 << 30, DeduplicationSec: int64(deduplication / time.Second), MaxAttempts: 20,
		OperatorAddress: "127.0.0.1:9", OperatorHost: "operator", // nobody is there, and nothing needs it
	}
}

func (s *Sidecars) serveWorker(ctx context.Context, stage *trial.Stage, number int) (func() error, error) {
	address, err := stage.Told(toldAddress) // the producer is there, and has made the identity
	if err != nil {
		return nil, err
	}
	dir, err := pod(stage, uidOf(number))
	if err != nil {
		return nil, err
	}
	at, err := addresses(3)
	if err != nil {
		return nil, err
	}
	document := runtimeconfig.Worker{
		Namespace: namespace, Pool: "bench", Flow: flowName, ProducerAddress: address, ProducerHost: sharedsecret.ServerName,
		Window: stage.Window, HandlerTimeoutSec: 60,
	}
	if err := s.handler(stage, number, &document); err != nil {
		return nil, err
	}
	if err := configure(dir, document); err != nil {
		return nil, err
	}
	stop := runSidecar(ctx, func(ctx context.Context) error {
		return worker.Run(ctx, worker.Options{
			Log: logr.Discard(), Incarnation: protocol.Incarnation{PodUID: uidOf(number), BootNonce: "bench"},
			ConfigFile: filepath.Join(dir, "config.json"), CAFile: caFile(stage), TLSDir: string(identity(stage)),
			TokenFile: filepath.Join(dir, "token"), DrainSocket: filepath.Join(dir, "drain.sock"), AppSocket: appSocket(stage, number), RunningFile: filepath.Join(dir, "running"),
			HealthAddress: at[0], MetricsAddress: at[1], ControlAddress: at[2], ConfigPoll: 2 * time.Second, StopTimeout: 5 * time.Second,
		})
	})
	healthy := "readyz"
	if s.Streams {
		healthy = "startupz" // it is ready once the app has come
	}
	if err := answers(at[0], healthy); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

// handler says in the document how the app is reached. One that takes jobs from a stream holds a window's worth.
func (s *Sidecars) handler(stage *trial.Stage, worker int, document *runtimeconfig.Worker) error {
	if s.Streams {
		document.Handler, document.Concurrency = runtimeconfig.HandlerStream, stage.Window
		return nil
	}
	app, err := stage.Told(fmt.Sprintf("%s-%d", toldApp, worker))
	if err != nil {
		return err
	}
	document.Concurrency, document.HandlerPath = httpConcurrency, "/jobs"
	_, err = fmt.Sscan(app, &document.HandlerPort)
	return err
}

// runSidecar runs a sidecar until stop is called.
func runSidecar(ctx context.Context, run func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
}

// answers waits until a probe of a sidecar succeeds.
func answers(health, probe string) error {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		answer, err := client.Get("http://" + health + "/" + probe)
		if err != nil {
			continue
		}
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			return nil
		}
	}
	return fmt.Errorf("the sidecar is not well: %s fails", probe)
}
