package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/queue/memory"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/prestop"
	"github.com/workpulling/workpulling/sidecar/running"
	"github.com/workpulling/workpulling/sidecar/worker"
)

const podUID = "5b9f3a52-7d3e-4a55-9d0e-0d8f0d8a3c11"

// everyone lets any token through as the same pod; who may bind is tested with runtime/fencing.
type everyone struct{}

func (everyone) AuthenticateWorker(context.Context, string) (delivery.Worker, error) {
	return delivery.Worker{PodUID: podUID, PodName: "pool-1", Pool: "pool"}, nil
}

func (everyone) AuthenticateSubmitter(context.Context, string, string) (transport.Submitter, error) {
	return transport.Submitter{}, errors.New("nobody submits over the network here")
}

// flow is a real producer endpoint behind real TLS on loopback.
type flow struct {
	*endpoint.Producer
	address string
}

func startFlow(t *testing.T, authority *transporttest.Authority) *flow {
	t.Helper()
	queue, err := memory.New(memory.Options{DeduplicationWindow: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	producer := endpoint.NewProducer(endpoint.ProducerOptions{
		Config:        delivery.DefaultControllerConfig(),
		Queue:         queue,
		Owner:         "test",
		Log:           testr.New(t),
		Intake:        delivery.SetIntake{Open: true, Dispatch: true},
		Authenticator: everyone{},
	})
	certificate, err := transport.NewCertificate(authority.Issue(t, "flow.example"))
	if err != nil {
		t.Fatal(err)
	}
	server := transport.NewServer(transport.ServerTLS(certificate))
	producer.Register(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = producer.Run(ctx) })
	running.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		cancel()
		server.Stop()
		running.Wait()
	})
	return &flow{Producer: producer, address: listener.Addr().String()}
}

func (f *flow) stats(t *testing.T) endpoint.ProducerStats {
	t.Helper()
	stats, err := f.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

func (f *flow) submit(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		job := protocol.Job{MessageID: id, Payload: []byte("payload of " + id)}
		receipt, err := f.Submit(t.Context(), job, endpoint.Digest(job))
		if err != nil {
			t.Fatalf("submitting %s: %v", id, err)
		}
		receipt.Acknowledge()
	}
}

// app counts what it is given, by MessageID, and can hold its answers.
type app struct {
	mu      sync.Mutex
	runs    map[string]int
	sources map[string]int // by ce-source and MessageID
	hold    chan struct{}
}

func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	id := r.Header.Get("Ce-Workpullingmessageid")
	a.mu.Lock()
	a.runs[id]++
	a.sources[r.Header.Get("Ce-Source")+" "+id]++
	hold := a.hold
	a.mu.Unlock()
	if string(body) != "payload of "+id {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	if hold != nil {
		<-hold
	}
}

func (a *app) started(id string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.runs[id]
}

func (a *app) seen() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.runs)
}

// rig is one worker sidecar with everything round it.
type rig struct {
	flow *flow
	app  *app
	worker.Options
	document runtimeconfig.Worker
	unready  bool // its app is not there yet
	control  protocolv1.WorkerControlClient
	server   *httptest.Server
	stop     context.CancelFunc
	ended    chan error
}

// start runs a sidecar; edit changes what the rig has prepared.
func start(t *testing.T, edit ...func(*rig, *transporttest.Authority)) *rig {
	t.Helper()
	dir := t.TempDir()
	authority := transporttest.NewAuthority(t)
	r := &rig{flow: startFlow(t, authority), app: &app{runs: map[string]int{}, sources: map[string]int{}}, ended: make(chan error, 1)}
	r.server = httptest.NewServer(r.app)
	t.Cleanup(func() { r.server.Close() })
	_, port, _ := net.SplitHostPort(r.server.Listener.Addr().String())
	appPort, _ := strconv.ParseInt(port, 10, 32)

	// Kubernetes calls the files of a Secret so.
	cert, key := authority.Issue(t, "pool.example")
	link(t, cert, filepath.Join(dir, "tls", "tls.crt"))
	link(t, key, filepath.Join(dir, "tls", "tls.key"))
	r.Options = worker.Options{
		Log:            testr.New(t),
		Incarnation:    protocol.Incarnation{PodUID: podUID, BootNonce: "boot-1"},
		ConfigFile:     filepath.Join(dir, "config.json"),
		CAFile:         authority.CAFile(),
		TLSDir:         filepath.Join(dir, "tls"),
		TokenFile:      filepath.Join(dir, "token"),
		DrainSocket:    filepath.Join(dir, "drain.sock"),
		AppSocket:      filepath.Join(dir, "app.sock"),
		RunningFile:    filepath.Join(dir, "state", "running"),
		HealthAddress:  transporttest.FreeAddress(t),
		MetricsAddress: transporttest.FreeAddress(t),
		ControlAddress: transporttest.FreeAddress(t),
		ConfigPoll:     10 * time.Millisecond,
		StopTimeout:    transporttest.Patience,
	}
	write(t, r.TokenFile, "a-token")
	r.document = runtimeconfig.Worker{
		Namespace: "default", Pool: "pool", Flow: "orders",
		ProducerAddress: r.flow.address, ProducerHost: "flow.example",
		Window: 8, Concurrency: 2, HandlerPort: int32(appPort), HandlerPath: "/jobs", HandlerTimeoutSec: 60,
	}
	for _, e := range edit {
		e(r, authority)
	}
	r.configure(t)

	certFile, keyFile := authority.Issue(t, runtimeconfig.OperatorCommonName)
	conn, err := transport.Peer{
		Address: r.ControlAddress,
		TLS:     transporttest.WithCertificate(t, transport.ClientTLS(authority.CAFile(), "pool.example"), certFile, keyFile),
	}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r.control = protocolv1.NewWorkerControlClient(conn)

	r.run()
	t.Cleanup(func() { r.end(t) })
	if r.unready {
		transporttest.Eventually(t, "the sidecar is there", func() bool { return r.probe("/startupz") == http.StatusOK })
		return r
	}
	transporttest.Eventually(t, "the sidecar is ready", func() bool { return r.probe("/readyz") == http.StatusOK })
	return r
}

// run starts a sidecar process.
func (r *rig) run() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.ended <- worker.Run(ctx, r.Options) }()
}

func (r *rig) end(t *testing.T) {
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

// restartApp replaces the app's process by another one at the same address.
func (r *rig) restartApp(t *testing.T) {
	t.Helper()
	address := r.server.Listener.Addr().String()
	close(r.app.hold) // a dying process ends its handlers
	r.server.Close()
	r.app.mu.Lock()
	r.app.hold = nil
	r.app.mu.Unlock()
	transporttest.Eventually(t, "the sidecar sees that nobody listens", func() bool { return r.probe("/readyz") == http.StatusServiceUnavailable })
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	r.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: r.app}}
	r.server.Start()
}

// configure writes the document as the operator would.
func (r *rig) configure(t *testing.T) (hash string) {
	t.Helper()
	text, hash, err := runtimeconfig.Marshal(r.document)
	if err != nil {
		t.Fatal(err)
	}
	write(t, r.ConfigFile+".new", text)
	if err := os.Rename(r.ConfigFile+".new", r.ConfigFile); err != nil {
		t.Fatal(err)
	}
	return hash
}

func (r *rig) probe(path string) int {
	answer, err := http.Get("http://" + r.HealthAddress + path)
	if err != nil {
		return 0
	}
	answer.Body.Close()
	return answer.StatusCode
}

func (r *rig) status(t *testing.T) *protocolv1.WorkerStatus {
	t.Helper()
	status, err := r.control.GetStatus(t.Context(), &protocolv1.GetStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// One sidecar, two flows: each job tells the app whose it is.
func TestJobsOfTwoFlowsReachTheApp(t *testing.T) {
	var returns *flow
	r := start(t, func(r *rig, authority *transporttest.Authority) {
		returns = startFlow(t, authority)
		r.document.Flows = []runtimeconfig.WorkerFlow{
			{Name: "orders", ProducerAddress: r.flow.address, ProducerHost: "flow.example"},
			{Name: "returns", ProducerAddress: returns.address, ProducerHost: "flow.example"},
		}
	})
	r.flow.submit(t, "a", "b")
	returns.submit(t, "c", "d")
	transporttest.Eventually(t, "everything is confirmed", func() bool {
		return r.flow.stats(t).Confirmed == 2 && returns.stats(t).Confirmed == 2
	})
	r.app.mu.Lock()
	defer r.app.mu.Unlock()
	want := map[string]int{
		"/namespaces/default/flows/orders a": 1, "/namespaces/default/flows/orders b": 1,
		"/namespaces/default/flows/returns c": 1, "/namespaces/default/flows/returns d": 1,
	}
	if diff := cmp.Diff(want, r.app.sources); diff != "" {
		t.Errorf("what the app was given (-want +got):\n%s", diff)
	}
}

// A document of an older operator names one flow.
func TestAnOlderOperatorsDocument(t *testing.T) {
	r := start(t)
	if len(r.document.Flows) != 0 {
		t.Fatal("the rig writes the newer form")
	}
	transporttest.Eventually(t, "registered", func() bool { return r.status(t).GetRegistered() })
}

// metrics is what the sidecar shows to Prometheus.
func (r *rig) metrics(t *testing.T) string {
	t.Helper()
	answer, err := http.Get("http://" + r.MetricsAddress + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestJobsReachTheAppAndAreConfirmed(t *testing.T) {
	r := start(t)
	ids := make([]string, 200)
	for i := range ids {
		ids[i] = fmt.Sprintf("job-%03d", i)
	}
	r.flow.submit(t, ids...)
	transporttest.Eventually(t, "everything is confirmed", func() bool { return r.flow.stats(t).Confirmed == uint64(len(ids)) })
	for id, runs := range r.app.runs {
		if runs != 1 {
			t.Errorf("%s ran %d times", id, runs)
		}
	}
	if text := r.metrics(t); !strings.Contains(text, `workpulling_worker_settled_jobs_total{flow="orders",outcome="confirmed"} 200`) {
		t.Errorf("metrics:\n%s", text)
	}
	transporttest.Eventually(t, "the worker is idle", func() bool { return r.status(t).GetUnsettled() == 0 })
}

// B-172: prestop stops demand, the running jobs finish and are confirmed, the unstarted ones stay with the flow untouched; and
// asking again, as a pod's hook does after the operator's drain, answers at once.
func TestDrainThroughPrestop(t *testing.T) {
	r := start(t)
	r.app.hold = make(chan struct{})
	r.flow.submit(t, "a", "b", "c", "d", "e")
	transporttest.Eventually(t, "two run", func() bool { return r.status(t).GetRunning() == 2 })

	first := make(chan error, 1)
	go func() {
		_, err := prestop.Wait(context.Background(), r.DrainSocket, transporttest.Patience)
		first <- err
	}()
	transporttest.Eventually(t, "the unstarted went back", func() bool { return r.flow.stats(t).BacklogJobs == 3 })
	if code := r.probe("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("readyz while draining = %d", code)
	}
	select {
	case err := <-first:
		t.Fatalf("prestop returned %v while two jobs were running", err)
	default:
	}
	close(r.app.hold)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	if got := r.flow.stats(t).Confirmed; got != 2 {
		t.Errorf("%d confirmed at the end of the drain, want 2", got)
	}
	if report, err := prestop.Wait(t.Context(), r.DrainSocket, transporttest.Patience); err != nil || !report.Drained {
		t.Errorf("a second prestop: %+v, %v", report, err)
	}
	if r.app.seen() != 2 {
		t.Errorf("the app saw %d jobs, want 2", r.app.seen())
	}
}

func TestTheOperatorCordonsOnlyTheIdle(t *testing.T) {
	r := start(t)
	transporttest.Eventually(t, "registered", func() bool { return r.status(t).GetRegistered() })
	if _, err := r.control.CordonIfIdle(t.Context(), &protocolv1.CordonIfIdleRequest{ExpectedPodUid: "another"}); err == nil {
		t.Error("a call for another pod was answered")
	}
	r.app.hold = make(chan struct{})
	r.flow.submit(t, "a")
	transporttest.Eventually(t, "one runs", func() bool { return r.status(t).GetRunning() == 1 })
	request := &protocolv1.CordonIfIdleRequest{ExpectedPodUid: podUID}
	if reply, err := r.control.CordonIfIdle(t.Context(), request); err != nil || reply.GetCordoned() {
		t.Errorf("a busy worker: %v, %v", reply, err)
	}
	close(r.app.hold)
	transporttest.Eventually(t, "idle and cordoned", func() bool {
		reply, err := r.control.CordonIfIdle(t.Context(), request)
		return err == nil && reply.GetCordoned()
	})
	r.flow.submit(t, "b")
	transporttest.Eventually(t, "b waits in the backlog", func() bool { return r.flow.stats(t).BacklogJobs == 1 })
	if _, err := r.control.Uncordon(t.Context(), &protocolv1.UncordonRequest{ExpectedPodUid: podUID}); err != nil {
		t.Fatal(err)
	}
	transporttest.Eventually(t, "b ran", func() bool { return r.flow.stats(t).Confirmed == 2 })
}

func TestAnEditArrivesWithoutARestart(t *testing.T) {
	r := start(t)
	r.app.hold = make(chan struct{})
	r.document.Concurrency = 4
	hash := r.configure(t)
	transporttest.Eventually(t, "the new configuration is in force", func() bool { return r.status(t).GetConfigHash() == hash })
	r.flow.submit(t, "a", "b", "c", "d", "e")
	transporttest.Eventually(t, "four run at a time", func() bool { return r.status(t).GetRunning() == 4 })

	write(t, r.ConfigFile, "{not json")
	r.flow.submit(t, "f")
	close(r.app.hold)
	transporttest.Eventually(t, "a broken edit changes nothing", func() bool { return r.flow.stats(t).Confirmed == 6 })
	if got := r.status(t).GetConfigHash(); got != hash {
		t.Errorf("config hash = %s after a broken edit, want %s", got, hash)
	}
}

// SIGTERM without prestop: running jobs are given their time, and the process ends by itself.
func TestStopDrains(t *testing.T) {
	r := start(t)
	r.app.hold = make(chan struct{})
	r.flow.submit(t, "a", "b", "c")
	transporttest.Eventually(t, "two run", func() bool { return r.status(t).GetRunning() == 2 })
	r.stop()
	transporttest.Eventually(t, "the unstarted went back", func() bool { return r.flow.stats(t).BacklogJobs == 1 })
	close(r.app.hold)
	transporttest.Eventually(t, "the running were confirmed", func() bool { return r.flow.stats(t).Confirmed == 2 })
}

// B-087: a sidecar that starts anew under a living app does not invoke the app a second time for what it still runs, although the flow
// gives the job out again; the free slot goes on working. The app's restart frees what the sidecar before had begun (B-088).
func TestASidecarRestartUnderALivingApp(t *testing.T) {
	r := start(t, func(r *rig, _ *transporttest.Authority) { r.StopTimeout = time.Millisecond })
	r.app.hold = make(chan struct{})
	r.flow.submit(t, "a")
	transporttest.Eventually(t, "a runs", func() bool { return r.app.started("a") == 1 })

	r.end(t)
	r.Incarnation.BootNonce = "boot-2"
	r.run()
	transporttest.Eventually(t, "registered anew", func() bool {
		status, err := r.control.GetStatus(t.Context(), &protocolv1.GetStatusRequest{})
		return err == nil && status.GetBootNonce() == "boot-2" && status.GetRegistered()
	})
	r.flow.submit(t, "b")
	transporttest.Eventually(t, "b runs in the free slot", func() bool { return r.app.started("b") == 1 })
	transporttest.Eventually(t, "a waits elsewhere", func() bool { s := r.flow.stats(t); return s.DelayedJobs == 1 && s.InFlight == 1 })
	if n := r.app.started("a"); n != 1 {
		t.Fatalf("the app was given a %d times while it runs it", n)
	}

	r.restartApp(t)
	transporttest.Eventually(t, "both are confirmed", func() bool { return r.flow.stats(t).Confirmed == 2 })
	if n := r.app.started("a"); n != 2 {
		t.Errorf("the app was given a %d times, want once in each of its lives", n)
	}
}

// A second process of the pod that finds the first one alive, paused perhaps, ends, and takes nothing from it: the first one's running set
// and drain socket stay where they are looked for.
func TestASecondSidecarTakesNothingFromTheFirst(t *testing.T) {
	r := start(t)
	if err := worker.Run(t.Context(), r.Options); err == nil {
		t.Fatal("two sidecars run in one pod")
	}
	r.app.hold = make(chan struct{})
	r.flow.submit(t, "a")
	transporttest.Eventually(t, "a runs", func() bool { return r.app.started("a") == 1 })
	raw, err := os.ReadFile(r.RunningFile)
	if err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(t.TempDir(), "running")
	write(t, next, string(raw))
	set, left, err := running.Open(next)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if len(left) != 1 || left[0].Claim.MessageID != "a" {
		t.Errorf("the next process would find %v", left)
	}
	close(r.app.hold)
	if _, err := prestop.Wait(t.Context(), r.DrainSocket, transporttest.Patience); err != nil {
		t.Error(err)
	}
}

func TestAMissingConfigurationIsSaid(t *testing.T) {
	options := worker.Options{Log: testr.New(t), ConfigFile: filepath.Join(t.TempDir(), "none.json")}
	if err := worker.Run(t.Context(), options); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Run = %v", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, from, to string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.Symlink(from, to)); err != nil {
		t.Fatal(err)
	}
}
