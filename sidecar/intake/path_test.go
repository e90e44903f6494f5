package intake_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/local"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/handler"
	"github.com/workpulling/workpulling/sidecar/intake"
)

// shakyApp fails the first attempts in every way that an app can, and notes what it answered in full.
type shakyApp struct {
	mu      sync.Mutex
	done    map[string]int // complete 2xx answers by MessageID
	running map[string]bool
	twice   []string // ids that ran twice at once
}

func (a *shakyApp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(handler.HeaderMessageID)
	body, err := io.ReadAll(r.Body)
	a.mu.Lock()
	if a.running[id] {
		a.twice = append(a.twice, id)
	}
	a.running[id] = true
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		delete(a.running, id)
		a.mu.Unlock()
	}()
	if err != nil || !strings.HasSuffix(id, "|"+string(body)) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	<-time.After(time.Duration(rand.IntN(10)) * time.Millisecond) // it works
	if attempt := r.Header.Get(handler.HeaderAttempt); attempt == "1" || attempt == "2" {
		switch rand.IntN(5) {
		case 0:
			panic(http.ErrAbortHandler)
		case 1:
			w.WriteHeader(http.StatusInternalServerError)
			return
		case 2: // says yes, and breaks off before the end of its answer
			w.Header().Set("Content-Length", "10")
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		}
	}
	a.mu.Lock()
	a.done[id]++
	a.mu.Unlock()
}

// flow is everything between an HTTP client and an HTTP app, over loopback, on a queue on disk.
type flow struct {
	queue    *local.Queue
	producer *endpoint.Producer
	intake   *httptest.Server
	proxy    *transporttest.Proxy
	stop     func()
}

func startFlow(t *testing.T, dir string, authority *transporttest.Authority, proxy *transporttest.Proxy) *flow {
	t.Helper()
	q, err := local.Open(t.Context(), local.Options{Dir: dir, FlowUID: "flow", DeduplicationWindow: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	config := delivery.DefaultControllerConfig()
	config.RetryInterval, config.BackoffInitial, config.BackoffMax = 50*time.Millisecond, time.Millisecond, 10*time.Millisecond
	tokens := &transporttest.Tokens{}
	producer := endpoint.NewProducer(endpoint.ProducerOptions{
		Config: config, Queue: q, Owner: "test", Log: logr.Discard(), Authenticator: tokens,
		Intake: delivery.SetIntake{Open: true, Dispatch: true}, StopGrace: 20 * time.Millisecond,
	})
	certFile, keyFile := authority.Issue(t, "flow")
	certificate, err := transport.NewCertificate(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := transport.NewServer(transport.ServerTLS(certificate))
	producer.Register(server)
	proxy.Retarget(listener.Addr().String())
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = producer.Run(ctx) })
	running.Go(func() { _ = server.Serve(listener) })
	f := &flow{queue: q, producer: producer, proxy: proxy}
	f.intake = httptest.NewServer(intake.New(intake.Options{Name: "f", Flow: producer, Authorizer: tokens, Log: logr.Discard()}).Handler())
	f.stop = sync.OnceFunc(func() {
		cancel()
		server.Stop()
		running.Wait()
		f.intake.Close()
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(f.stop)
	return f
}

// submit sends one job until it is stored. Some tries go away at a random moment; their job may be stored or not.
func (f *flow) submit(t *testing.T, key string) {
	for {
		patience := time.Minute
		if rand.IntN(4) == 0 {
			patience = time.Duration(rand.IntN(5)) * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.intake.URL+"/v1/flows/f/jobs", strings.NewReader(key))
		if err != nil {
			t.Error(err)
		}
		request.Header.Set("Authorization", "Bearer user:a")
		request.Header.Set("Idempotency-Key", key)
		answer, err := http.DefaultClient.Do(request)
		if err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
		cancel()
		if err == nil && (answer.StatusCode == http.StatusCreated || answer.StatusCode == http.StatusOK) {
			return
		}
	}
}

// From the client's request to the app's answer: whatever breaks on the way, a job that was taken is done, no job is confirmed
// that the app did not answer for in full, and none runs twice at once.
func TestNothingIsLostBetweenClientAndApp(t *testing.T) {
	const jobs, clients = 600, 12
	app := &shakyApp{done: map[string]int{}, running: map[string]bool{}}
	server := httptest.NewUnstartedServer(app)
	server.Start()
	defer server.Close()
	port := int32(server.Listener.Addr().(*net.TCPAddr).Port)
	authority, dir := transporttest.NewAuthority(t), t.TempDir()
	proxy := transporttest.NewProxy(t, "")
	f := startFlow(t, dir, authority, proxy)

	ctx, cancel := context.WithCancel(context.Background())
	peer := transport.Peer{
		Address: proxy.Address(), TLS: transport.ClientTLS(authority.CAFile(), "flow"), TokenFile: transporttest.TokenFile(t, "pod:w"),
	}
	config := delivery.DefaultConsumerConfig()
	config.Concurrency, config.ResendInterval = 8, 50*time.Millisecond
	worker := endpoint.NewWorker(endpoint.WorkerOptions{
		Config: config, Incarnation: protocol.Incarnation{PodUID: "w", BootNonce: "b"},
		Flows: []endpoint.Source{{
			Dial:    endpoint.DialPeer(func() transport.Peer { return peer }),
			Handler: handler.New(ctx, "/flows/f", func() handler.Target { return handler.Target{Port: port} }, nil),
		}}, Log: logr.Discard(),
		ReconnectMin: time.Millisecond, ReconnectMax: 10 * time.Millisecond,
	})
	worker.SetAppReady(true)
	var background sync.WaitGroup
	background.Go(func() { _ = worker.Run(ctx) })
	defer background.Wait()
	defer cancel()

	half := func(from, to int) {
		var all sync.WaitGroup
		for c := range clients {
			all.Go(func() {
				for n := from + c; n < to; n += clients {
					f.submit(t, fmt.Sprintf("job-%d", n))
					if n%50 == 0 {
						proxy.Cut()
					}
				}
			})
		}
		all.Wait()
	}
	half(0, jobs/2)
	f.stop() // with jobs in flight
	f = startFlow(t, dir, authority, proxy)
	half(jobs/2, jobs)

	left := func() (ids []string) {
		for n := range jobs {
			id := fmt.Sprintf("|a|job-%d", n)
			if state, err := f.producer.Lookup(t.Context(), id); err != nil || state.Status != queue.StatusConfirmed {
				ids = append(ids, id)
			}
		}
		return ids
	}
	transporttest.Eventually(t, "every job is confirmed", func() bool { return len(left()) == 0 })
	app.mu.Lock()
	defer app.mu.Unlock()
	repeats := 0
	for n := range jobs {
		id := fmt.Sprintf("|a|job-%d", n)
		if app.done[id] == 0 {
			t.Errorf("%s is confirmed, and the app never answered for it", id)
		}
		repeats += app.done[id] - 1
	}
	if len(app.done) != jobs || len(app.twice) > 0 {
		t.Errorf("%d jobs done, %d submitted; at once twice: %v", len(app.done), jobs, app.twice)
	}
	t.Logf("%d of %d jobs were answered for more than once", repeats, jobs)
}
