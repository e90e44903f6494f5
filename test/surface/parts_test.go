package surface

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/workpulling/workpulling/internal/flowstats"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/intake"
	"github.com/workpulling/workpulling/sidecar/producer"
	"github.com/workpulling/workpulling/sidecar/worker"
)

// Names in the certificates of the parts.
var (
	producerHost = runtimeconfig.ProducerHost(flowName, namespace)
	workerHost   = runtimeconfig.WorkerHost(poolName, namespace)
)

const operatorHost = "workpulling-operator.workpulling-system.svc"

// world is one of each part, on the loopback, with everything that it listens on.
type world struct {
	t         *testing.T
	cluster   *cluster
	authority *transporttest.Authority
	foreign   *transporttest.Authority // another CA
	trusted   atomic.Bool              // the switch of the intake
	// at says where each listener is: an address, or the path of a socket.
	at map[listener]string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, cluster: newCluster(t), authority: transporttest.NewAuthority(t), foreign: transporttest.NewAuthority(t), at: map[listener]string{},
	}
	w.startProducer()
	w.startWorker()
	w.startCollector()
	return w
}

// mount puts a certificate for servers where a pod has it.
func (w *world) mount(name string) (dir string) {
	w.t.Helper()
	dir = w.t.TempDir()
	certFile, keyFile := w.authority.IssueFor(w.t, name, x509.ExtKeyUsageServerAuth)
	for from, to := range map[string]string{certFile: "tls.crt", keyFile: "tls.key"} {
		if err := os.Rename(from, filepath.Join(dir, to)); err != nil {
			w.t.Fatal(err)
		}
	}
	return dir
}

// run runs a part until the test ends.
func (w *world) run(part func(context.Context) error) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := part(ctx); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// ready waits for the readiness of a part that has probes.
func (w *world) ready(what, address, path string) {
	w.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	transporttest.Eventually(w.t, what+" is ready", func() bool {
		response, err := client.Get("http://" + address + path)
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

func document[T runtimeconfig.Producer | runtimeconfig.Worker](t *testing.T, dir string, value T) (file string) {
	t.Helper()
	text, _, err := runtimeconfig.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "config.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func (w *world) startProducer() {
	w.t.Helper()
	dir, guard := w.mount(producerHost), w.cluster.guard(w.t, w.trusted.Load)
	w.at[producerStreams], w.at[producerIntake] = transporttest.FreeAddress(w.t), transporttest.FreeAddress(w.t)
	w.at[producerHealth], w.at[producerMetrics] = transporttest.FreeAddress(w.t), transporttest.FreeAddress(w.t)
	w.at[intakeSocket], w.at[producerSocket] = filepath.Join(dir, "intake.sock"), filepath.Join(dir, "producer.sock")
	w.run(func(ctx context.Context) error {
		return producer.Run(ctx, producer.Options{
			Log: logr.Discard(), Incarnation: protocol.Incarnation{PodUID: "producer-uid", BootNonce: "boot"},
			ConfigFile: document(w.t, dir, runtimeconfig.Producer{
				Namespace: namespace, Flow: flowName, FlowUID: "flow-uid", QueueType: "Memory", Intake: runtimeconfig.IntakeOpen,
				BacklogMaxJobs: 10_000, BacklogMaxBytes: 1 << 30, DeduplicationSec: 600, MaxAttempts: 5,
			}),
			CAFile: w.authority.CAFile(), TLSDir: dir, TokenFile: filepath.Join(dir, "token"), APIDir: dir, DataDir: dir,
			IntakeSocket: w.at[intakeSocket], ProducerSocket: w.at[producerSocket], LossFile: filepath.Join(dir, "loss"), HaltFile: filepath.Join(dir, "halt"),
			TransportAddress: w.at[producerStreams], IntakeAddress: w.at[producerIntake], HealthAddress: w.at[producerHealth], MetricsAddress: w.at[producerMetrics],
			ConfigPoll: time.Second, Authenticator: guard,
			Neighbours: func(func() bool) intake.Neighbours { return network{guard.Neighbours()} },
		})
	})
	w.ready("the producer", w.at[producerHealth], "/readyz")
}

func (w *world) startWorker() {
	w.t.Helper()
	dir := w.mount(workerHost)
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte(w.cluster.token(w.t, namespace, "worker", runtimeconfig.TokenAudience)), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.at[workerControl], w.at[workerHealth], w.at[workerMetrics] = transporttest.FreeAddress(w.t), transporttest.FreeAddress(w.t), transporttest.FreeAddress(w.t)
	w.at[drainSocket], w.at[appSocket] = filepath.Join(dir, "drain.sock"), filepath.Join(dir, "app.sock")
	w.run(func(ctx context.Context) error {
		return worker.Run(ctx, worker.Options{
			Log: logr.Discard(), Incarnation: protocol.Incarnation{PodUID: "worker-uid", BootNonce: "boot"},
			ConfigFile: document(w.t, dir, runtimeconfig.Worker{
				Namespace: namespace, Pool: poolName, Flow: flowName, ProducerAddress: w.at[producerStreams], ProducerHost: producerHost,
				Window: 1, Concurrency: 1, Handler: runtimeconfig.HandlerStream, HandlerTimeoutSec: 60,
			}),
			CAFile: w.authority.CAFile(), TLSDir: dir, TokenFile: filepath.Join(dir, "token"),
			DrainSocket: w.at[drainSocket], AppSocket: w.at[appSocket],
			ControlAddress: w.at[workerControl], HealthAddress: w.at[workerHealth], MetricsAddress: w.at[workerMetrics],
			ConfigPoll: time.Second, StopTimeout: time.Second,
		})
	})
	w.ready("the worker", w.at[workerHealth], "/startupz")
}

// startCollector is where producers report to the operator, which is the only port of its own making.
func (w *world) startCollector() {
	w.t.Helper()
	dir := w.mount(operatorHost)
	certificate, err := transport.NewCertificate(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		w.t.Fatal(err)
	}
	serving := transport.ServerTLS(certificate)
	serving.NextProtos = []string{"h2"}
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.at[operatorReports] = socket.Addr().String()
	server := &flowstats.Server{
		TLS: serving, Registry: flowstats.NewRegistry(clock.RealClock{}, time.Second), Log: logr.Discard(),
		Identify: flowstats.TokenIdentity(w.cluster.client(w.t), flowstats.ByReview(w.cluster.client(w.t))),
	}
	w.run(func(ctx context.Context) error { return server.Serve(ctx, socket) })
}

// trust turns the switch of the intake, and waits until the pods of the namespace are known where it is on.
func (w *world) trust(on bool) {
	w.t.Helper()
	if !w.trusted.CompareAndSwap(!on, on) || !on {
		return
	}
	transporttest.Eventually(w.t, "the pods of the namespace are known", func() bool {
		got, _ := w.caller(producerIntake, neighbour).call(http.MethodGet, "/v1/flows/{flow}/jobs/{id}")
		return got == served
	})
}
