package bed

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling"
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue/local"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/handler"
	"github.com/workpulling/workpulling/sidecar/intake"
)

// Name is the name of every flow here.
const Name = "orders"

// serverName is in its certificate.
const serverName = "orders-producer"

// Flow is a producer with its intake and its streams, over loopback.
type Flow struct {
	t         *testing.T
	producer  *endpoint.Producer
	authority *transporttest.Authority
	intake    *httptest.Server
	streams   string // host:port
	running   sync.WaitGroup
	ctx       context.Context // of the flow, until the test ends
}

// Start runs a flow until the test ends. A job is given up after three attempts.
func Start(t *testing.T) *Flow {
	t.Helper()
	q, err := local.Open(t.Context(), local.Options{Dir: t.TempDir(), FlowUID: Name, DeduplicationWindow: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	config := delivery.DefaultControllerConfig()
	config.MaxAttempts = 3 // none of them is spent on an app that does not listen
	config.RetryInterval, config.BackoffInitial, config.BackoffMax = 50*time.Millisecond, 10*time.Millisecond, 50*time.Millisecond
	tokens := &transporttest.Tokens{}
	producer := endpoint.NewProducer(endpoint.ProducerOptions{
		Config: config, Queue: q, Owner: "tutorial", Log: logr.Discard(), Authenticator: tokens,
		Intake: delivery.SetIntake{Open: true, Dispatch: true}, StopGrace: 10 * time.Millisecond,
	})
	f := &Flow{producer: producer, t: t, authority: transporttest.NewAuthority(t)}
	certificate, err := transport.NewCertificate(f.authority.Issue(t, serverName))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.streams = listener.Addr().String()
	server := transport.NewServer(transport.ServerTLS(certificate))
	producer.Register(server)
	ctx, cancel := context.WithCancel(context.Background())
	f.ctx = ctx
	f.running.Go(func() { _ = producer.Run(ctx) })
	f.running.Go(func() { _ = server.Serve(listener) })
	f.intake = httptest.NewServer(intake.New(intake.Options{Name: Name, Flow: producer, Authorizer: tokens, Log: logr.Discard()}).Handler())
	t.Cleanup(func() {
		cancel()
		server.Stop()
		f.running.Wait()
		f.intake.Close()
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// Peer is what a client of the flow's streams needs.
func (f *Flow) Peer(token string) transport.Peer {
	return transport.Peer{
		Address: f.streams, TLS: transport.ClientTLS(f.authority.CAFile(), serverName), TokenFile: transporttest.TokenFile(f.t, token),
	}
}

// Streams is host:port of the flow's streams.
func (f *Flow) Streams() string { return f.streams }

// Identity is that of a client with this token.
func (f *Flow) Identity(token string) workpulling.Identity {
	return workpulling.Identity{
		CAFile: f.authority.CAFile(), ServerName: serverName, Token: func(context.Context) (string, error) { return token, nil },
	}
}

// Stored is how many jobs were ever stored.
func (f *Flow) Stored() int {
	f.t.Helper()
	stats, err := f.producer.Stats(f.ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	return int(stats.Accepted)
}

// PeerFlags is the same for the command line of a program: the flags -producer, -ca, -name and -token.
func (f *Flow) PeerFlags(token string) []string {
	return []string{"-producer", f.streams, "-ca", f.authority.CAFile(), "-name", serverName, "-token", transporttest.TokenFile(f.t, token)}
}

// Work attaches a worker, as a sidecar would, that posts jobs to a port of this machine, one at a time. It returns when it is bound.
func (f *Flow) Work(name string, port int) {
	f.t.Helper()
	peer := f.Peer("pod:" + name)
	target := func() handler.Target { return handler.Target{Port: int32(port)} }
	poke := make(chan struct{}, 1)
	unreachable := func() {
		select {
		case poke <- struct{}{}:
		default:
		}
	}
	config := delivery.DefaultConsumerConfig()
	config.ResendInterval = 50 * time.Millisecond
	worker := endpoint.NewWorker(endpoint.WorkerOptions{
		Config: config, Incarnation: protocol.Incarnation{PodUID: name, BootNonce: "b"}, Log: logr.Discard(),
		Flows: []endpoint.Source{{
			Dial:    endpoint.DialPeer(func() transport.Peer { return peer }),
			Handler: handler.New(f.ctx, "/flows/"+Name, target, unreachable),
		}},
	})
	orphaned := func() bool { return worker.Status().Orphaned > 0 }
	f.running.Go(func() {
		handler.Probe(f.ctx, target, poke, orphaned, func(sight handler.Sight) {
			if sight.Replaced {
				worker.AppReplaced()
			}
			worker.SetAppReady(sight.Ready)
		})
	})
	f.running.Go(func() { _ = worker.Run(f.ctx) })
	transporttest.Eventually(f.t, name+" is bound", func() bool {
		stats, err := f.producer.Stats(f.ctx)
		return err == nil && slices.ContainsFunc(stats.Bindings, func(b delivery.BindingStats) bool { return b.Worker.PodUID == name })
	})
}

// Submit stores jobs by their key, and returns their MessageIDs. wait makes it wait until each is over, however it ends.
func (f *Flow) Submit(wait bool, payloads map[string]string) (ids []string) {
	f.t.Helper()
	query := ""
	if wait {
		query = "?wait=confirmed&timeout=1m"
	}
	for key, payload := range payloads {
		var answer struct{ ID string }
		status := f.call(http.MethodPost, "/jobs"+query, payload, &answer, "Idempotency-Key", key)
		if status != http.StatusCreated && status != http.StatusConflict {
			f.t.Fatalf("submitting %s: %d", key, status)
		}
		ids = append(ids, answer.ID)
	}
	return ids
}

// State is stored, confirmed, dead-lettered, dropped, or unknown.
func (f *Flow) State(id string) string {
	f.t.Helper()
	var answer struct{ State string }
	if f.call(http.MethodGet, "/jobs/"+url.PathEscape(id), "", &answer) == http.StatusNotFound {
		return "unknown"
	}
	return answer.State
}

// Await polls until every job has that state.
func (f *Flow) Await(state string, ids []string) {
	f.t.Helper()
	rest := ids
	transporttest.Eventually(f.t, fmt.Sprintf("%d jobs are %s", len(ids), state), func() bool {
		for len(rest) > 0 && f.State(rest[0]) == state {
			rest = rest[1:]
		}
		return len(rest) == 0
	})
}

// DeadLetters are the reasons of dead letters by MessageID.
func (f *Flow) DeadLetters() map[string]string {
	f.t.Helper()
	var page struct {
		Items []struct{ ID, Reason string }
	}
	f.call(http.MethodGet, "/dead-letters", "", &page)
	reasons := map[string]string{}
	for _, letter := range page.Items {
		reasons[letter.ID] = letter.Reason
	}
	return reasons
}

func (f *Flow) call(method, path, body string, into any, headers ...string) int {
	f.t.Helper()
	request, err := http.NewRequestWithContext(f.t.Context(), method, f.intake.URL+"/v1/flows/"+Name+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer user:submitter")
	for n := 0; n < len(headers); n += 2 {
		request.Header.Set(headers[n], headers[n+1])
	}
	response, err := f.intake.Client().Do(request)
	if err != nil {
		f.t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, into); err != nil {
			f.t.Fatalf("%v in %s", err, raw)
		}
	}
	return response.StatusCode
}

// Payloads makes n payloads by key.
func Payloads(n int, payload func(n int) string) map[string]string {
	all := make(map[string]string, n)
	for i := range n {
		all["job-"+strconv.Itoa(i)] = payload(i)
	}
	return all
}
