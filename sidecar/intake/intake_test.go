package intake_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue/memory"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/intake"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// world is an intake over a real producer with a memory queue, and a worker that is in-process.
type world struct {
	t        testing.TB
	producer *endpoint.Producer
	tokens   *transporttest.Tokens
	options  intake.Options
	server   *httptest.Server
}

func newWorld(t testing.TB, edit func(*endpoint.ProducerOptions, *intake.Options)) *world {
	t.Helper()
	q, err := memory.New(memory.Options{DeduplicationWindow: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, tokens: &transporttest.Tokens{}}
	options := endpoint.ProducerOptions{
		Config: delivery.DefaultControllerConfig(), Queue: q, Owner: "test", Log: logr.Discard(),
		Intake: delivery.SetIntake{Open: true, Dispatch: true}, Authenticator: w.tokens, CreditWait: 50 * time.Millisecond,
	}
	options.Config.BackoffInitial, options.Config.BackoffMax = time.Millisecond, time.Millisecond
	w.options = intake.Options{
		Name: "orders", Authorizer: w.tokens, Log: logr.Discard(), MaxPayload: func() int { return 1000 },
	}
	if edit != nil {
		edit(&options, &w.options)
	}
	w.producer = endpoint.NewProducer(options)
	w.options.Flow = w.producer
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = w.producer.Run(ctx) })
	w.server = httptest.NewServer(intake.New(w.options).Handler())
	t.Cleanup(func() {
		w.server.Close()
		cancel()
		running.Wait()
		_ = q.Close()
	})
	w.until("the queue is loaded", func() bool { return w.stats().Phase == delivery.PhaseRunning })
	return w
}

func (w *world) stats() endpoint.ProducerStats {
	w.t.Helper()
	stats, err := w.producer.Stats(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return stats
}

func (w *world) until(what string, condition func() bool) {
	w.t.Helper()
	transporttest.Eventually(w.t, what, condition)
}

// reply is an answer with its body read.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) json(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), into); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
}

// send makes a request as user:alice; headers are pairs, and a pair with an empty value removes one.
func (w *world) send(method, path, body string, headers ...string) reply {
	w.t.Helper()
	return w.sendReader(method, path, strings.NewReader(body), headers...)
}

func (w *world) sendReader(method, path string, body io.Reader, headers ...string) reply {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer user:alice")
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] == "" {
			request.Header.Del(headers[i])
			continue
		}
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := w.server.Client().Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, string(raw)}
}

const jobs = "/v1/flows/orders/jobs"

type jobAnswer struct {
	ID       string
	Sequence int64
	State    string
	New      bool
	Status   int
	Problem  *struct{ Status int }
}

func TestStatusOfOneJob(t *testing.T) {
	w := newWorld(t, nil)
	binary := []string{"Ce-Specversion", "1.0", "Ce-Id", "1", "Ce-Source", "/shop", "Ce-Type", "order", "Content-Type", "text/plain"}
	structured := `{"specversion":"1.0","id":"2","source":"/shop","type":"order","datacontenttype":"application/json","data":{"a":1}}`
	for _, c := range []struct {
		name    string
		method  string
		path    string
		body    string
		headers []string
		status  int
		says    string
	}{
		{"binary event", "POST", jobs, "hello", binary, 201, `"sequence":1`},
		{"its repeat", "POST", jobs, "hello", binary, 200, `"new":false`},
		{"its repeat with a new trace", "POST", jobs, "hello", append([]string{"Traceparent", "00-1-2-01"}, binary...), 200, `"state":"stored"`},
		{"its id with another body", "POST", jobs, "other", binary, 422, "first body stands"},
		{"structured event", "POST", jobs, structured, []string{"Content-Type", "application/cloudevents+json"}, 201, `"id":"/shop|2"`},
		{"plain body", "POST", jobs, "x", []string{"Idempotency-Key", "k"}, 201, `"id":"|alice|k"`},
		{"the same key of another subject", "POST", jobs, "y", []string{"Idempotency-Key", "k", "Authorization", "Bearer user:bob"}, 201, `"id":"|bob|k"`},
		{"plain body without a key", "POST", jobs, "x", nil, 400, "Idempotency-Key"},
		{"empty body", "POST", jobs, "", []string{"Idempotency-Key", "e"}, 400, "payload is empty"},
		{"event without source", "POST", jobs, "x", []string{"Ce-Specversion", "1.0", "Ce-Id", "1", "Ce-Type", "t"}, 400, "source"},
		{"event of another version", "POST", jobs, "x", []string{"Ce-Specversion", "9", "Ce-Id", "1", "Ce-Type", "t", "Ce-Source", "/s"}, 400, "specification"},
		{"structured without meaning", "POST", jobs, "{", []string{"Content-Type", "application/cloudevents+json"}, 400, "not a CloudEvent"},
		{"control character in the id", "POST", jobs, "x", []string{"Idempotency-Key", "a\tb"}, 400, "control character"},
		{"body at the limit", "POST", jobs, strings.Repeat("x", 1000), []string{"Idempotency-Key", "limit"}, 201, ""},
		{"body over the limit", "POST", jobs, strings.Repeat("x", 1001), []string{"Idempotency-Key", "over"}, 413, "1000 bytes"},
		{"no token", "POST", jobs, "x", []string{"Authorization", ""}, 401, "token-missing"},
		{"unknown token", "POST", jobs, "x", []string{"Authorization", "Bearer nonsense"}, 401, "token-invalid"},
		{"unknown flow", "POST", "/v1/flows/other/jobs", "x", nil, 404, "serves the flow orders"},
		{"wrong wait", "POST", jobs + "?wait=stored", "x", nil, 400, "confirmed"},
		{"wrong timeout", "POST", jobs + "?wait=confirmed&timeout=1h", "x", nil, 400, "timeout"},
		{"look-up", "GET", jobs + "/" + url.PathEscape("/shop|1"), "", nil, 200, `"state":"stored"`},
		{"look-up of a stranger", "GET", jobs + "/nobody", "", nil, 404, "No such job"},
		{"wrong method", "PUT", jobs, "x", nil, 405, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.t = t
			got := w.send(c.method, c.path, c.body, c.headers...)
			if got.status != c.status || !strings.Contains(got.body, c.says) {
				t.Errorf("got %d %s, want %d with %q", got.status, got.body, c.status, c.says)
			}
			if kind := got.header.Get("Content-Type"); got.status >= 400 && kind != "application/problem+json" {
				t.Errorf("an error of type %q", kind)
			}
			if got.status == 401 && got.header.Get("WWW-Authenticate") == "" {
				t.Error("401 without WWW-Authenticate")
			}
		})
	}
	w.t = t
	if s := w.stats(); s.Accepted != 5 {
		t.Errorf("%d jobs stored, want 5", s.Accepted)
	}
	w.until("the receipt is acknowledged, so that the id can be forgotten one day", func() bool {
		state, err := w.producer.Lookup(t.Context(), "/shop|1")
		return err == nil && state.Accepted
	})
}

func TestLocationLeadsToTheJob(t *testing.T) {
	w := newWorld(t, nil)
	long := strings.Repeat("long/", 100)
	created := w.send("POST", jobs, "x", "Idempotency-Key", long)
	if created.status != 201 {
		t.Fatalf("%d %s", created.status, created.body)
	}
	var answer jobAnswer
	created.json(t, &answer)
	if !strings.HasPrefix(answer.ID, "|sha256|") {
		t.Errorf("id %q of a long key is not hashed", answer.ID)
	}
	if again := w.send("POST", jobs, "x", "Idempotency-Key", long); again.status != 200 {
		t.Errorf("the repeat of a long key is %d", again.status)
	}
	if found := w.send("GET", created.header.Get("Location"), ""); found.status != 200 {
		t.Errorf("%d under %s", found.status, created.header.Get("Location"))
	}
}

func TestBodyIsBoundedWhileItIsRead(t *testing.T) {
	w := newWorld(t, nil)
	endless := io.LimitReader(endlessReader{}, 1<<30)
	if got := w.sendReader("POST", jobs, endless, "Idempotency-Key", "k"); got.status != 413 {
		t.Errorf("an endless body is answered by %d", got.status)
	}
}

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) { return len(p), nil }

func TestBatchAnswersEachItem(t *testing.T) {
	w := newWorld(t, nil)
	event := func(id, data string) string {
		return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/s","type":"t","datacontenttype":"text/plain","data":%q}`, id, data)
	}
	kind := []string{"Content-Type", "application/cloudevents-batch+json"}
	all := w.send("POST", jobs, "["+event("1", "a")+","+event("2", "b")+"]", kind...)
	if all.status != 200 {
		t.Fatalf("%d %s", all.status, all.body)
	}
	mixed := w.send("POST", jobs, "["+event("1", "a")+","+event("2", "other")+`,{"id":"x"},`+event("3", strings.Repeat("x", 2000))+","+event("4", "d")+"]", kind...)
	var answers []jobAnswer
	mixed.json(t, &answers)
	var statuses []int
	for _, a := range answers {
		statuses = append(statuses, a.Status)
	}
	if want := []int{200, 422, 400, 413, 201}; mixed.status != 207 || fmt.Sprint(statuses) != fmt.Sprint(want) {
		t.Errorf("got %d %v, want 207 %v: %s", mixed.status, statuses, want, mixed.body)
	}
	for _, body := range []string{"[]", "{}", "[" + strings.Repeat("{},", 1000) + "{}]"} {
		if got := w.send("POST", jobs, body, kind...); got.status != 400 {
			t.Errorf("batch %.20s… is %d", body, got.status)
		}
	}
}

func TestBackPressureSuspensionAndOutage(t *testing.T) {
	w := newWorld(t, func(p *endpoint.ProducerOptions, _ *intake.Options) {
		p.Config.BacklogJobs, p.Config.BacklogBytes = 3, 1<<30
	})
	for i := range 3 {
		if got := w.send("POST", jobs, "x", "Idempotency-Key", fmt.Sprint(i)); got.status != 201 {
			t.Fatalf("job %d: %d %s", i, got.status, got.body)
		}
	}
	full := w.send("POST", jobs, "x", "Idempotency-Key", "full")
	if full.status != 429 || full.header.Get("Retry-After") == "" {
		t.Errorf("full: %d %s %v", full.status, full.body, full.header)
	}
	if !w.stats().BacklogFull {
		t.Error("the figures do not say that the backlog is full")
	}
	w.producer.SetIntake(delivery.SetIntake{Dispatch: true})
	if got := w.send("POST", jobs, "x", "Idempotency-Key", "s"); got.status != 503 || !strings.Contains(got.body, "suspended") {
		t.Errorf("suspended: %d %s", got.status, got.body)
	}
	w.tokens.Refuse(io.ErrUnexpectedEOF)
	if got := w.send("POST", jobs, "x", "Idempotency-Key", "s"); got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("identity check out of order: %d %s", got.status, got.body)
	}
	w.tokens.Refuse(&transport.Refusal{Label: transport.LabelForbidden, Reason: "alice may not"})
	if got := w.send("POST", jobs, "x", "Idempotency-Key", "s"); got.status != 403 {
		t.Errorf("forbidden: %d %s", got.status, got.body)
	}
}

func TestVolatileQueueSaysSo(t *testing.T) {
	w := newWorld(t, func(_ *endpoint.ProducerOptions, o *intake.Options) { o.Volatile = true })
	got := w.send("POST", jobs, "x", "Idempotency-Key", "k")
	if got.status != 202 || got.header.Get("Workpulling-Durability") != "volatile" {
		t.Errorf("%d %v", got.status, got.header)
	}
}

// work attaches a worker over real gRPC.
func (w *world) work(handle endpoint.HandlerFunc) {
	w.t.Helper()
	authority := transporttest.NewAuthority(w.t)
	certFile, keyFile := authority.Issue(w.t, "flow")
	certificate, err := transport.NewCertificate(certFile, keyFile)
	if err != nil {
		w.t.Fatal(err)
	}
	server := transport.NewServer(transport.ServerTLS(certificate))
	w.producer.Register(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	peer := transport.Peer{
		Address: listener.Addr().String(), TLS: transport.ClientTLS(authority.CAFile(), "flow"), TokenFile: transporttest.TokenFile(w.t, "pod:w"),
	}
	worker := endpoint.NewWorker(endpoint.WorkerOptions{
		Config: delivery.DefaultConsumerConfig(), Incarnation: protocol.Incarnation{PodUID: "w", BootNonce: "b"},
		Flows: []endpoint.Source{{Dial: endpoint.DialPeer(func() transport.Peer { return peer }), Handler: handle}}, Log: logr.Discard(),
	})
	worker.SetAppReady(true)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(listener) })
	running.Go(func() { _ = worker.Run(ctx) })
	w.t.Cleanup(func() {
		cancel()
		server.Stop()
		running.Wait()
	})
}

func TestWaitForTheConfirmation(t *testing.T) {
	w := newWorld(t, nil)
	stored := w.send("POST", jobs+"?wait=confirmed&timeout=100ms", "x", "Idempotency-Key", "early")
	if stored.status != 504 || !strings.Contains(stored.body, "is stored") || stored.header.Get("Location") == "" {
		t.Errorf("nobody works: %d %s", stored.status, stored.body)
	}
	w.work(func(_ context.Context, d protocol.Delivery) endpoint.Result {
		if string(d.Job.Payload) == "bad" {
			return endpoint.Result{Outcome: protocol.Rejected, Reason: "makes no sense"}
		}
		return endpoint.Result{Outcome: protocol.Confirmed}
	})
	done := w.send("POST", jobs+"?wait=confirmed", "x", "Idempotency-Key", "done")
	if done.status != 201 || !strings.Contains(done.body, `"state":"confirmed"`) {
		t.Errorf("confirmed: %d %s", done.status, done.body)
	}
	again := w.send("POST", jobs+"?wait=confirmed", "x", "Idempotency-Key", "early")
	if again.status != 200 || !strings.Contains(again.body, `"state":"confirmed"`) {
		t.Errorf("the one stored before: %d %s", again.status, again.body)
	}
	bad := w.send("POST", jobs+"?wait=confirmed", "bad", "Idempotency-Key", "bad")
	if bad.status != 409 || !strings.Contains(bad.body, "makes no sense") {
		t.Errorf("rejected: %d %s", bad.status, bad.body)
	}
}

func TestDeadLettersAreListedRedrivenAndDropped(t *testing.T) {
	w := newWorld(t, nil)
	var mu sync.Mutex
	healed := false
	w.work(func(context.Context, protocol.Delivery) endpoint.Result {
		mu.Lock()
		defer mu.Unlock()
		if healed {
			return endpoint.Result{Outcome: protocol.Confirmed}
		}
		return endpoint.Result{Outcome: protocol.Rejected, Reason: "no"}
	})
	for _, key := range []string{"a", "b"} {
		if got := w.send("POST", jobs+"?wait=confirmed", "x", "Idempotency-Key", key); got.status != 409 {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	const letters = "/v1/flows/orders/dead-letters"
	list := func() (items []struct {
		ID       string
		Sequence int64
		Reason   string
	}) {
		var page struct{ Items json.RawMessage }
		w.send("GET", letters, "").json(t, &page)
		if err := json.Unmarshal(page.Items, &items); err != nil {
			t.Fatal(err)
		}
		return items
	}
	items := list()
	if len(items) != 2 || items[0].ID != "|alice|a" || items[0].Reason != "no" {
		t.Fatalf("dead letters %v", items)
	}
	if got := w.send("GET", letters+"?limit=1", ""); !strings.Contains(got.body, `"next":1`) {
		t.Errorf("first page: %s", got.body)
	}
	mu.Lock()
	healed = true
	mu.Unlock()
	if got := w.send("POST", fmt.Sprintf("%s/%d/redrive", letters, items[0].Sequence), `{"reason":"fixed"}`); got.status != 204 {
		t.Errorf("redrive: %d %s", got.status, got.body)
	}
	w.until("the re-driven job is confirmed", func() bool {
		return strings.Contains(w.send("GET", jobs+"/"+url.PathEscape("|alice|a"), "").body, "confirmed")
	})
	resubmit := func(state string) {
		t.Helper()
		if got := w.send("POST", jobs, "x", "Idempotency-Key", "b"); got.status != 200 || !strings.Contains(got.body, fmt.Sprintf(`"state":%q,"new":false`, state)) {
			t.Errorf("resubmitted: %d %s, want the state %s", got.status, got.body, state)
		}
	}
	resubmit("dead-lettered")
	if got := w.send("GET", jobs+"/"+url.PathEscape("|alice|b"), ""); !strings.Contains(got.body, `"reason":"no"`) {
		t.Errorf("looked up: %s", got.body)
	}
	if got := w.send("DELETE", fmt.Sprintf("%s/%d", letters, items[1].Sequence), ""); got.status != 204 {
		t.Errorf("drop: %d %s", got.status, got.body)
	}
	resubmit("dropped")
	if got := w.send("DELETE", fmt.Sprintf("%s/%d", letters, items[1].Sequence), ""); got.status != 404 {
		t.Errorf("dropped twice: %d %s", got.status, got.body)
	}
	if left := list(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	for _, path := range []string{letters + "/x/redrive", letters + "/0/redrive"} {
		if got := w.send("POST", path, ""); got.status != 400 {
			t.Errorf("%s: %d", path, got.status)
		}
	}
}

// B-060: orphans are listed page by page and accepted by a person, which leaves an audit line.
func TestB060_OrphansAreListedAndAccepted(t *testing.T) {
	w := newWorld(t, func(o *endpoint.ProducerOptions, _ *intake.Options) { o.OrphanAge = time.Nanosecond })
	for _, id := range []string{"o1", "o2", "o3"} {
		job := protocol.Job{MessageID: id, Payload: []byte("x")}
		if _, err := w.producer.Submit(t.Context(), job, endpoint.Digest(job)); err != nil {
			t.Fatal(err)
		}
	}
	const orphans = "/v1/flows/orders/orphans"
	var page struct {
		Items []struct {
			ID       string
			Sequence int64
			State    string
		}
		Next int64
	}
	w.send("GET", orphans+"?limit=2", "").json(t, &page)
	if len(page.Items) != 2 || page.Items[0].ID != "o1" || page.Items[0].State != "stored" || page.Next != 2 {
		t.Fatalf("first page %+v", page)
	}
	if got := w.send("POST", orphans+"/1/accept", `{"reason":"its app is gone"}`); got.status != 204 {
		t.Errorf("accept: %d %s", got.status, got.body)
	}
	if got := w.send("POST", orphans+"/1/accept", ""); got.status != 404 {
		t.Errorf("accepted twice: %d %s", got.status, got.body)
	}
	if got := w.send("POST", orphans+"/0/accept", ""); got.status != 400 {
		t.Errorf("no sequence: %d %s", got.status, got.body)
	}
	page.Items = nil
	w.send("GET", orphans, "").json(t, &page)
	if len(page.Items) != 2 || page.Items[0].ID != "o2" {
		t.Errorf("left: %+v", page.Items)
	}
	if got := w.send("GET", "/v1/flows/orders/audit", ""); !strings.Contains(got.body, `"action":"accept-orphan","id":"o1","sequence":1,"text":"by alice: its app is gone"`) {
		t.Errorf("audit: %s", got.body)
	}
}

// What a handler gets is what was submitted: attributes, content type and trace.
func TestHeadersReachTheHandler(t *testing.T) {
	w := newWorld(t, nil)
	got := make(chan protocol.Job, 3)
	w.work(func(_ context.Context, d protocol.Delivery) endpoint.Result {
		got <- d.Job
		return endpoint.Result{Outcome: protocol.Confirmed}
	})
	w.send("POST", jobs, `{"specversion":"1.0","id":"s","source":"/s","type":"t","subject":"sub","myext":7,"data_base64":"AAE="}`,
		"Content-Type", "application/cloudevents+json", "Traceparent", "00-trace")
	job := <-got
	want := map[string]string{
		"content-type": "application/json", "traceparent": "00-trace", "ce-specversion": "1.0", "ce-id": "s", "ce-source": "/s",
		"ce-type": "t", "ce-subject": "sub", "ce-myext": "7",
	}
	if fmt.Sprint(job.Headers) != fmt.Sprint(want) || !bytes.Equal(job.Payload, []byte{0, 1}) {
		t.Errorf("headers %v payload %v", job.Headers, job.Payload)
	}
	w.send("POST", jobs, "body", "Ce-Specversion", "1.0", "Ce-Id", "a%20b", "Ce-Source", "/a|b", "Ce-Type", "t", "Content-Type", "text/csv; charset=utf-8")
	job = <-got
	if job.MessageID != "/a%7Cb|a b" || job.Headers["content-type"] != "text/csv; charset=utf-8" || job.Headers["ce-id"] != "a b" {
		t.Errorf("%q %v", job.MessageID, job.Headers)
	}
}

func TestUnixSocketSubmitsAndLooksUpWithoutATokenAndNothingElse(t *testing.T) {
	w := newWorld(t, nil)
	path := filepath.Join(t.TempDir(), "intake.sock")
	server, err := intake.ListenUnix(path, intake.New(w.options).LocalHandler("system:serviceaccount:shop:app"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	send := func(method, path string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, "http://local"+path, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Idempotency-Key", "k")
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		raw, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(raw)
	}
	if status, body := send("POST", jobs); status != 201 || !strings.Contains(body, "|system:serviceaccount:shop:app|k") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := send("GET", jobs+"/"+url.PathEscape("|system:serviceaccount:shop:app|k")); status != 200 {
		t.Errorf("look-up: %d %s", status, body)
	}
	for _, refused := range [][2]string{
		{"GET", "/v1/flows/orders/dead-letters"}, {"POST", "/v1/flows/orders/dead-letters/1/redrive"}, {"DELETE", "/v1/flows/orders/dead-letters/1"},
		{"GET", "/v1/flows/orders/dead-letters/1"}, {"GET", "/v1/flows/orders/dead-letters/1/payload"},
		{"POST", "/v1/flows/orders/dead-letters/redrive?all=true"}, {"POST", "/v1/flows/orders/dead-letters/drop?all=true"},
		{"GET", "/v1/flows/orders/orphans"}, {"POST", "/v1/flows/orders/orphans/1/accept"}, {"GET", "/v1/flows/orders/audit"},
	} {
		if status, body := send(refused[0], refused[1]); status != 403 {
			t.Errorf("%v without a token: %d %s", refused, status, body)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
