package producer_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/producer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const host = "orders-producer.shop.svc"

// pod is a producer pod: files, ports and a process that can be restarted over the same volume.
type pod struct {
	t         testing.TB
	authority *transporttest.Authority
	tokens    *transporttest.Tokens
	document  runtimeconfig.Producer
	options   producer.Options
	client    *http.Client
	protocol  int // the major version of HTTP that client speaks
	operator  *operator
	stop      func() error
}

func newPod(t testing.TB) *pod {
	t.Helper()
	return newPodOf(t, transporttest.NewAuthority(t))
}

// newPodOf makes a pod whose peers know the authority.
func newPodOf(t testing.TB, authority *transporttest.Authority) *pod {
	t.Helper()
	dir := t.TempDir()
	p := &pod{t: t, authority: authority, tokens: &transporttest.Tokens{}, protocol: 2}
	p.operator = newOperator(t, p.authority)
	p.document = runtimeconfig.Producer{
		Namespace: "shop", Flow: "orders", FlowUID: "flow-uid", QueueType: "Local", Intake: runtimeconfig.IntakeOpen,
		BacklogMaxJobs: 10_000, BacklogMaxBytes: 1 << 30, DeduplicationSec: 600, MaxAttempts: 5, HeartbeatSec: 1, DeadlineSec: 5,
		OperatorAddress: p.operator.address, OperatorHost: "operator",
	}
	certFile, keyFile := p.authority.Issue(t, host)
	for from, to := range map[string]string{certFile: "tls.crt", keyFile: "tls.key"} {
		if err := os.Rename(from, filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	p.options = producer.Options{
		Log: logr.Discard(), Incarnation: protocol.Incarnation{PodUID: "producer-uid", BootNonce: "boot"},
		ConfigFile: filepath.Join(dir, "config.json"), CAFile: p.authority.CAFile(), TLSDir: dir,
		TokenFile: transporttest.TokenFile(t, "producer"), APIDir: dir, DataDir: filepath.Join(dir, "data"),
		IntakeSocket: filepath.Join(dir, "intake.sock"), ProducerSocket: filepath.Join(dir, "producer.sock"), LossFile: filepath.Join(dir, "loss"),
		HaltFile:      filepath.Join(dir, "failure.json"),
		HealthAddress: transporttest.FreeAddress(t), MetricsAddress: transporttest.FreeAddress(t), TransportAddress: transporttest.FreeAddress(t), IntakeAddress: transporttest.FreeAddress(t),
		ConfigPoll: 10 * time.Millisecond, Authenticator: p.tokens,
	}
	p.client = &http.Client{Transport: &http.Transport{
		TLSClientConfig: transport.ClientTLS(p.authority.CAFile(), host), DisableKeepAlives: true, ForceAttemptHTTP2: true,
	}}
	return p
}

// configure writes the document, as the kubelet does after an edit.
func (p *pod) configure(edit func(*runtimeconfig.Producer)) {
	p.t.Helper()
	if edit != nil {
		edit(&p.document)
	}
	text, _, err := runtimeconfig.Marshal(p.document)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(p.options.ConfigFile+".new", []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(p.options.ConfigFile+".new", p.options.ConfigFile); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pod) start() {
	p.t.Helper()
	done := p.launch()
	p.until("ready", func() bool {
		select {
		case err := <-done:
			done <- err
			p.t.Fatalf("the sidecar ended: %v", err)
		default:
		}
		status, _ := p.get("http://" + p.options.HealthAddress + "/readyz")
		return status == 200
	})
}

// launch is start for a sidecar that is not going to be ready. It returns what the end of the sidecar is told on.
func (p *pod) launch() chan error {
	p.t.Helper()
	p.configure(nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- producer.Run(ctx, p.options) }()
	p.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	p.t.Cleanup(func() {
		if err := p.stop(); err != nil {
			p.t.Error(err)
		}
	})
	return done
}

// run runs the sidecar until ctx ends.
func (p *pod) run(ctx context.Context) error { return producer.Run(ctx, p.options) }

func (p *pod) until(what string, condition func() bool) {
	p.t.Helper()
	transporttest.Eventually(p.t, what, condition)
}

func (p *pod) get(url string) (int, string) {
	p.t.Helper()
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	raw, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(raw)
}

func (p *pod) submit(key, query string) (int, string) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "https://"+p.options.IntakeAddress+"/v1/flows/orders/jobs"+query, strings.NewReader("body of "+key))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Idempotency-Key", key)
	request.Header.Set("Authorization", "Bearer user:alice")
	return p.answer(request)
}

// answer is what the intake says to a request.
func (p *pod) answer(request *http.Request) (int, string) {
	p.t.Helper()
	response, err := p.client.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.ProtoMajor != p.protocol {
		p.t.Errorf("the intake speaks %s", response.Proto)
	}
	raw, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(raw)
}

func (p *pod) work() {
	p.t.Helper()
	p.workAs("w")
}

// workAs binds a worker that dials this pod.
func (p *pod) workAs(uid string) {
	p.t.Helper()
	peer := transport.Peer{
		Address: p.options.TransportAddress, TLS: transport.ClientTLS(p.authority.CAFile(), host), TokenFile: transporttest.TokenFile(p.t, "pod:"+uid),
	}
	worker := endpoint.NewWorker(endpoint.WorkerOptions{
		Config: delivery.DefaultConsumerConfig(), Incarnation: protocol.Incarnation{PodUID: uid, BootNonce: "b"}, Log: logr.Discard(),
		Flows: []endpoint.Source{{
			Dial: endpoint.DialPeer(func() transport.Peer { return peer }),
			Handler: endpoint.HandlerFunc(func(context.Context, protocol.Delivery) endpoint.Result {
				return endpoint.Result{Outcome: protocol.Confirmed}
			}),
		}},
	})
	worker.SetAppReady(true)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = worker.Run(ctx) })
	p.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// operator collects reports.
type operator struct {
	protocolv1.UnimplementedFlowStatsCollectorServer
	address string

	mu   sync.Mutex
	last *protocolv1.FlowStats
}

func newOperator(t testing.TB, authority *transporttest.Authority) *operator {
	t.Helper()
	certificate, err := transport.NewCertificate(authority.Issue(t, "operator"))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &operator{address: listener.Addr().String()}
	server := transport.NewServer(transport.ServerTLS(certificate))
	protocolv1.RegisterFlowStatsCollectorServer(server, o)
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		running.Wait()
	})
	return o
}

func (o *operator) Report(stream protocolv1.FlowStatsCollector_ReportServer) error {
	if token, err := transport.BearerOf(stream.Context()); err != nil || token != "producer" {
		return fmt.Errorf("token %q: %w", token, err)
	}
	for {
		stats, err := stream.Recv()
		if err != nil {
			return err
		}
		o.mu.Lock()
		o.last = stats
		o.mu.Unlock()
		if err := stream.Send(&protocolv1.FlowStatsAck{}); err != nil {
			return err
		}
	}
}

func (o *operator) stats() *protocolv1.FlowStats {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

func TestJobsGoThroughTheWholeSidecar(t *testing.T) {
	p := newPod(t)
	p.start()
	for i := range 20 {
		if status, body := p.submit(fmt.Sprint(i), ""); status != 201 {
			t.Fatalf("%d %s", status, body)
		}
	}
	p.until("the operator knows the backlog", func() bool {
		s := p.operator.stats()
		return s != nil && s.State == "Running" && s.BacklogJobs == 20 && s.AcceptedTotal == 20 && s.FlowUid == "flow-uid" && s.QueueAvailable
	})
	p.work()
	if status, body := p.submit("waits", "?wait=confirmed"); status != 201 || !strings.Contains(body, "confirmed") {
		t.Errorf("%d %s", status, body)
	}
	p.until("the operator knows that all is done, and who did it", func() bool {
		s := p.operator.stats()
		return s.ConfirmedTotal == 21 && s.BacklogJobs == 0 && len(s.Workers) == 1 && s.Workers[0].PodUid == "w"
	})
	_, metrics := p.get("http://" + p.options.MetricsAddress + "/metrics")
	for _, line := range []string{"workpulling_flow_confirmed_jobs_total 21", `workpulling_intake_answers_total{code="201"} 21`, `workpulling_flow_phase{phase="Running"} 1`} {
		if !strings.Contains(metrics, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
}

// A stop keeps what was stored, and the next start knows it; the app beside reaches it over the socket.
func TestRestartKeepsJobs(t *testing.T) {
	p := newPod(t)
	p.start()
	if status, body := p.submit("kept", ""); status != 201 {
		t.Fatalf("%d %s", status, body)
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	p.start()
	if status, body := p.submit("kept", ""); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", p.options.IntakeSocket)
	}}}
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://intake/v1/flows/orders/jobs", strings.NewReader("x"))
	request.Header.Set("Idempotency-Key", "beside")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		t.Errorf("over the socket: %d", response.StatusCode)
	}
}

// A stop answers everybody who waits for a confirmation: those whose job ends meanwhile by its end, the others by what is known.
// Nobody finds a broken connection.
func TestA008_StopAnswersThoseWhoWaitForAConfirmation(t *testing.T) {
	p := newPod(t)
	p.start()
	type said struct {
		status int
		body   string
	}
	const callers = 5
	answers := make(chan said, callers)
	var wait sync.WaitGroup
	for n := range callers {
		wait.Go(func() {
			status, body := p.submit(fmt.Sprint("waits ", n), "?wait=confirmed&timeout=2m")
			answers <- said{status, body}
		})
	}
	p.until("everybody's job is stored", func() bool {
		s := p.operator.stats()
		return s != nil && s.AcceptedTotal == callers
	})
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	wait.Wait()
	for range callers {
		if a := <-answers; a.status != http.StatusGatewayTimeout || !strings.Contains(a.body, "is stored") {
			t.Errorf("told %d %s", a.status, a.body)
		}
	}
	p.start()
	p.work()
	for n := range callers {
		if status, body := p.submit(fmt.Sprint("waits ", n), "?wait=confirmed"); status != http.StatusOK || !strings.Contains(body, `"state":"confirmed"`) {
			t.Errorf("after the restart: %d %s", status, body)
		}
	}
}

// Edits take effect in the running process, without a restart (B-264).
func TestEditsTakeEffect(t *testing.T) {
	p := newPod(t)
	p.start()
	p.configure(func(d *runtimeconfig.Producer) { d.Intake = runtimeconfig.IntakeSuspended })
	fresh := 0 // a repeat of what was stored before the edit took effect is answered 200
	p.until("suspended", func() bool {
		fresh++
		status, _ := p.submit(fmt.Sprint("fresh ", fresh), "")
		return status == 503
	})
	p.until("the operator sees it", func() bool { s := p.operator.stats(); return s != nil && s.State == "Suspended" })
	p.configure(func(d *runtimeconfig.Producer) { d.Intake, d.PayloadMaxBytes = runtimeconfig.IntakeOpen, 3 })
	p.until("the payload limit counts", func() bool {
		status, _ := p.submit("s", "")
		return status == 413
	})
	if err := os.WriteFile(p.options.ConfigFile, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.configure(func(d *runtimeconfig.Producer) { d.PayloadMaxBytes = 0 })
	p.until("a broken document in between harms nothing", func() bool {
		status, _ := p.submit("after", "")
		return status == 201
	})
}

// A volume that cannot be opened is no crash: the pod is not ready, says why, and recovers by itself.
func TestUnusableVolumeIsShownAndRetried(t *testing.T) {
	p := newPod(t)
	if err := os.WriteFile(p.options.DataDir, []byte("in the way"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.configure(nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- producer.Run(ctx, p.options) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	p.until("not ready, with the reason", func() bool {
		status, body := p.get("http://" + p.options.HealthAddress + "/readyz")
		return status == 503 && strings.Contains(body, "opening the queue")
	})
	p.until("the operator knows", func() bool {
		s := p.operator.stats()
		return s != nil && s.State == "Loading" && !s.QueueAvailable && strings.Contains(s.QueueMessage, "opening the queue")
	})
	if status, body := p.submit("early", ""); status != 503 {
		t.Errorf("%d %s", status, body)
	}
	if err := os.Remove(p.options.DataDir); err != nil {
		t.Fatal(err)
	}
	p.until("ready once the volume is there", func() bool {
		status, _ := p.get("http://" + p.options.HealthAddress + "/readyz")
		return status == 200
	})
}

func TestUnknownQueueTypeIsRefused(t *testing.T) {
	p := newPod(t)
	p.configure(func(d *runtimeconfig.Producer) { d.QueueType = "Cassette" })
	if err := producer.Run(t.Context(), p.options); err == nil || !strings.Contains(err.Error(), "Cassette") {
		t.Errorf("%v", err)
	}
}

// A pod that takes the place of a failed one loads nothing until spec.recoverNonce changes, and says why (B-237).
func TestRecoverNonceStartsTheFlowAnew(t *testing.T) {
	p := newPod(t)
	p.document.Halted = &runtimeconfig.Halt{Stage: "Store", Code: runtimeconfig.FailureConflict, Reason: "row 7 is torn"}
	p.launch()
	p.until("the operator knows the failure", func() bool {
		s := p.operator.stats()
		return s != nil && s.State == "Failed" && s.FailureStage == "Store" && s.FailureCode == "conflict" && s.FailureReason == "row 7 is torn" && s.Epoch == 0
	})
	if status, body := p.submit("early", ""); status != 503 {
		t.Errorf("submitting to a failed flow: %d %s", status, body)
	}
	p.configure(func(d *runtimeconfig.Producer) { d.Halted, d.RecoverNonce = nil, 1 })
	p.until("the flow works", func() bool {
		s := p.operator.stats()
		return s.State == "Running" && s.FailureStage == "" && s.Epoch == 1 && s.RecoverNonce == 1
	})
	if status, body := p.submit("late", ""); status != 201 {
		t.Errorf("%d %s", status, body)
	}
}
