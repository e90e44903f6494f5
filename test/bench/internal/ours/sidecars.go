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

	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/producer"
	"github.com/workpulling/workpulling/sidecar/worker"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// Sidecars is a producing app and worker apps that know HTTP alone, each beside a sidecar: four hops, of which the one between the sidecars
// is gRPC with TLS.
type Sidecars struct{ Backend Backend }

// httpConcurrency is how many handlers of one worker run at once: a request is on its way for long.
const httpConcurrency = 16

// Name implements trial.System.
func (s *Sidecars) Name() string { return "sidecars-http-" + string(s.Backend) }

// Settings implements trial.System.
func (s *Sidecars) Settings() string {
	return fmt.Sprintf("producing app, producer sidecar, worker sidecars, worker app, each in a process of its own; CloudEvents in batches over HTTP "+
		"on a Unix socket in, gRPC with TLS 1.3 between, one POST a job out, %d at once a worker; %s", httpConcurrency, s.Backend.settings())
}

// Available implements trial.System.
func (*Sidecars) Available() error { return nil }

// Processes implements trial.System.
func (s *Sidecars) Processes(stage *trial.Stage) []trial.Process {
	processes := []trial.Process{{Name: "producer-sidecar", Serve: []string{"producer"}}}
	processes = append(processes, trial.Workers(stage)...)
	return append(processes, trial.Process{Name: "worker-sidecar", Serve: []string{"workers"}}, trial.Process{Name: "producer", Produces: true})
}

const (
	flowName  = "bench"
	namespace = "bench"
	toldApp   = "app"
)

// Serve implements trial.System.
func (s *Sidecars) Serve(ctx context.Context, stage *trial.Stage, role string) (func() error, error) {
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

// pod makes the directory of a sidecar with its certificate and token.
func pod(stage *trial.Stage, certificates *authority, name, token string) (dir string, err error) {
	dir = stage.Path(name)
	if err := os.MkdirAll(filepath.Join(dir, "tls"), 0o700); err != nil {
		return "", err
	}
	if err := certificates.issue(name); err != nil {
		return "", err
	}
	certFile, keyFile := certificates.files(name)
	return dir, errors.Join(
		os.Rename(certFile, filepath.Join(dir, "tls", "tls.crt")),
		os.Rename(keyFile, filepath.Join(dir, "tls", "tls.key")),
		os.WriteFile(filepath.Join(dir, "token"), []byte(token), 0o600))
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
	certificates, err := newAuthority(stage.Dir)
	if err != nil {
		return nil, err
	}
	dir, err := pod(stage, certificates, serverName, "pod:producer")
	if err != nil {
		return nil, err
	}
	for worker := range stage.Workers {
		if _, err := pod(stage, certificates, uidOf(worker), "pod:"+uidOf(worker)); err != nil {
			return nil, err
		}
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
			Log: logr.Discard(), Incarnation: protocol.Incarnation{PodUID: "producer", BootNonce: "bench"}, Authenticator: tokens{},
			ConfigFile: filepath.Join(dir, "config.json"), CAFile: caFile(stage.Dir), TLSDir: filepath.Join(dir, "tls"),
			TokenFile: filepath.Join(dir, "token"), APIDir: dir, DataDir: filepath.Join(dir, "data"), LossFile: filepath.Join(dir, "loss"),
			HaltFile: filepath.Join(dir, "halt"), IntakeSocket: stage.Path("intake.sock"), ConfigPoll: 2 * time.Second,
			HealthAddress: at[0], MetricsAddress: at[1], TransportAddress: at[2], IntakeAddress: at[3],
		})
	})
	if err := ready(at[0]); err != nil {
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
	dir := stage.Path(uidOf(number))
	address, err := stage.Told(toldAddress)
	if err != nil {
		return nil, err
	}
	app, err := stage.Told(fmt.Sprintf("%s-%d", toldApp, number))
	if err != nil {
		return nil, err
	}
	at, err := addresses(3)
	if err != nil {
		return nil, err
	}
	document := runtimeconfig.Worker{
		Namespace: namespace, Pool: "bench", Flow: flowName, ProducerAddress: address, ProducerHost: serverName,
		Window: stage.Window, Concurrency: httpConcurrency, HandlerPath: "/jobs", HandlerTimeoutSec: 60,
	}
	if _, err := fmt.Sscan(app, &document.HandlerPort); err != nil {
		return nil, err
	}
	if err := configure(dir, document); err != nil {
		return nil, err
	}
	stop := runSidecar(ctx, func(ctx context.Context) error {
		return worker.Run(ctx, worker.Options{
			Log: logr.Discard(), Incarnation: protocol.Incarnation{PodUID: uidOf(number), BootNonce: "bench"},
			ConfigFile: filepath.Join(dir, "config.json"), CAFile: caFile(stage.Dir), TLSDir: filepath.Join(dir, "tls"),
			TokenFile: filepath.Join(dir, "token"), DrainSocket: filepath.Join(dir, "drain.sock"), RunningFile: filepath.Join(dir, "running"),
			HealthAddress: at[0], MetricsAddress: at[1], ControlAddress: at[2], ConfigPoll: 2 * time.Second, StopTimeout: 5 * time.Second,
		})
	})
	if err := ready(at[0]); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
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

// ready waits until a sidecar says that it is.
func ready(health string) error {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		answer, err := client.Get("http://" + health + "/readyz")
		if err != nil {
			continue
		}
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			return nil
		}
	}
	return errors.New("the sidecar is not ready")
}
