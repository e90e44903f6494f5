package fencing_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/fencing/tokentest"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

const issuer = "https://kubernetes.default.svc"

// server speaks the part of the API that a Guard uses, over HTTP, and can be cut off.
type server struct {
	t *testing.T
	*httptest.Server

	mu       sync.Mutex
	keys     []tokentest.Key
	ahead    time.Duration // of its clock
	now      func() time.Time
	cut      bool
	answers  map[string]int // status of every answer under a path, for 200
	calls    map[string]int
	pods     []*metav1.PartialObjectMetadata
	pools    []*unstructured.Unstructured
	leases   []*unstructured.Unstructured
	revoked  map[string]bool // tokens
	forbid   bool            // every access
	changed  chan struct{}   // closed to end the watches
	version  int             // counts changes
	reviewed []authorizationv1.SubjectAccessReviewSpec
}

const (
	pathKeys   = "/openid/v1/jwks"
	pathTokens = "/apis/authentication.k8s.io/v1/tokenreviews"
	pathAccess = "/apis/authorization.k8s.io/v1/namespaces/shop/localsubjectaccessreviews"
	pathPods   = "/api/v1/namespaces/shop/pods"
	pathPools  = "/apis/workpulling.dev/v1alpha1/namespaces/shop/workerpools"
	pathLeases = "/apis/coordination.k8s.io/v1/namespaces/shop/leases"
)

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{
		t: t, keys: []tokentest.Key{tokentest.ECDSA(t, "first")}, answers: map[string]int{}, calls: map[string]int{}, revoked: map[string]bool{},
		changed: make(chan struct{}), pods: []*metav1.PartialObjectMetadata{pod("worker", "worker-uid", "pool"), pod("second", "second-uid", "pool")},
		pools: []*unstructured.Unstructured{pool("pool", "orders"), pool("foreign", "other")}, now: time.Now,
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathKeys, func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		w.Header().Set("Date", s.now().Add(s.ahead).UTC().Format(http.TimeFormat))
		_, _ = w.Write(tokentest.JWKS(s.t, s.keys...))
	})
	mux.HandleFunc("POST "+pathTokens, s.review)
	mux.HandleFunc("POST "+pathAccess, s.authorize)
	mux.HandleFunc("GET "+pathPods, func(w http.ResponseWriter, r *http.Request) {
		s.list(w, r, "PartialObjectMetadataList", "meta.k8s.io/v1", s.allPods)
	})
	mux.HandleFunc("GET "+pathPods+"/{name}", func(w http.ResponseWriter, r *http.Request) { s.get(w, r, s.allPods()) })
	mux.HandleFunc("GET "+pathPools, func(w http.ResponseWriter, r *http.Request) {
		s.list(w, r, "WorkerPoolList", "workpulling.dev/v1alpha1", s.allPools)
	})
	mux.HandleFunc("GET "+pathPools+"/{name}", func(w http.ResponseWriter, r *http.Request) { s.get(w, r, s.allPools()) })
	mux.HandleFunc("GET "+pathLeases, func(w http.ResponseWriter, r *http.Request) {
		s.list(w, r, "LeaseList", "coordination.k8s.io/v1", s.allLeases)
	})
	mux.HandleFunc("GET "+pathLeases+"/{name}", func(w http.ResponseWriter, r *http.Request) { s.get(w, r, s.allLeases()) })
	s.Server = httptest.NewServer(s.gate(mux))
	t.Cleanup(s.Close)
	return s
}

// gate is what comes before every answer: none at all, or another one.
func (s *server) gate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.calls[r.URL.Path]++
		cut, status := s.cut, s.answers[r.URL.Path]
		s.mu.Unlock()
		if cut {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		if status != 0 {
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q}`, status, map[int]string{403: "Forbidden", 401: "Unauthorized"}[status])
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *server) allPods() []any {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []any{}
	for _, one := range s.pods {
		one = one.DeepCopy()
		one.TypeMeta = metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}
		out = append(out, one)
	}
	return out
}

func (s *server) allPools() []any {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []any{}
	for _, one := range s.pools {
		out = append(out, one.Object)
	}
	return out
}

func (s *server) allLeases() []any {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []any{}
	for _, one := range s.leases {
		out = append(out, one.Object)
	}
	return out
}

func (s *server) list(w http.ResponseWriter, r *http.Request, kind, version string, items func() []any) {
	s.mu.Lock()
	changed, now := s.changed, fmt.Sprint(s.version)
	s.mu.Unlock()
	expired := make(chan struct{})
	if r.URL.Query().Get("resourceVersion") != now { // what was listed has changed before the watch came
		close(expired)
	}
	switch {
	case r.URL.Query().Get("sendInitialEvents") != "":
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":422,"reason":"Invalid"}`)
	case r.URL.Query().Get("watch") != "":
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-expired:
		case <-r.Context().Done():
			return
		}
		fmt.Fprint(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired"}}`)
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": kind, "apiVersion": version, "metadata": map[string]any{"resourceVersion": now}, "items": items()})
	}
}

func (s *server) get(w http.ResponseWriter, r *http.Request, items []any) {
	for _, item := range items {
		raw, err := json.Marshal(item)
		if err == nil && strings.Contains(string(raw), `"name":"`+r.PathValue("name")+`"`) {
			_, _ = w.Write(raw)
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":404,"reason":"NotFound"}`)
}

func (s *server) review(w http.ResponseWriter, r *http.Request) {
	var review authenticationv1.TokenReview
	_ = json.NewDecoder(r.Body).Decode(&review)
	s.mu.Lock()
	revoked := s.revoked[review.Spec.Token]
	s.mu.Unlock()
	switch {
	case revoked:
		review.Status = authenticationv1.TokenReviewStatus{Error: "[invalid bearer token, service account token has been invalidated]"}
	case review.Spec.Token == "opaque":
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{audience}, User: authenticationv1.UserInfo{Username: "alice", Groups: []string{"staff"}}}
	case strings.HasPrefix(review.Spec.Token, "eyJ"):
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{audience}, User: authenticationv1.UserInfo{
			Username: "system:serviceaccount:shop:app", Extra: map[string]authenticationv1.ExtraValue{
				"authentication.kubernetes.io/pod-name": {"worker"}, "authentication.kubernetes.io/pod-uid": {"worker-uid"},
			},
		}}
	default:
		review.Status.Error = "invalid bearer token"
	}
	_ = json.NewEncoder(w).Encode(review)
}

func (s *server) authorize(w http.ResponseWriter, r *http.Request) {
	var review authorizationv1.LocalSubjectAccessReview
	_ = json.NewDecoder(r.Body).Decode(&review)
	s.mu.Lock()
	review.Status.Allowed = !s.forbid
	s.reviewed = append(s.reviewed, review.Spec)
	s.mu.Unlock()
	_ = json.NewEncoder(w).Encode(review)
}

// set changes the server, and ends its watches, so that everything is listed anew.
func (s *server) set(change func(*server)) {
	s.mu.Lock()
	change(s)
	s.version++
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	s.CloseClientConnections()
}

func (s *server) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[path]
}

// key is the newest key.
func (s *server) key() tokentest.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[len(s.keys)-1]
}

// process is a Guard, as one process of a producer has it.
type process struct {
	*server
	guard *fencing.Guard
	clock *clocktesting.FakePassiveClock
	gone  chan string
	over  chan string
	stop  func()
}

// start begins a process with the state of the ones before it.
func (s *server) start(dir string, clock *clocktesting.FakePassiveClock) *process {
	s.t.Helper()
	config := &rest.Config{
		Host: s.URL, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON},
		BearerToken: s.keys[0].Sign(s.t, tokentest.Bound(issuer, "shop", "producer", "producer", "p", clock.Now(), time.Hour, issuer)),
	}
	clients, err := fencing.NewClients(config, "shop")
	if err != nil {
		s.t.Fatal(err)
	}
	p := &process{server: s, clock: clock, gone: make(chan string, 10), over: make(chan string, 10)}
	p.guard = fencing.New(fencing.Options{
		Namespace: "shop", Flow: "orders", FlowUID: "flow-uid", StatefulSet: "orders-producer", Audience: audience, Clock: clock, StateDir: dir,
		OnPodGone: func(uid string) { p.gone <- uid }, Log: logr.Discard(),
		OnIncarnationOver: func(uid, boot, _ string) { p.over <- uid + "/" + boot },
	}, clients)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.guard.Run(ctx)
	}()
	p.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		s.CloseClientConnections()
	})
	s.t.Cleanup(p.stop)
	return p
}

func newProcess(t *testing.T) *process {
	t.Helper()
	s := newServer(t)
	clock := clocktesting.NewFakePassiveClock(time.Now())
	s.now = clock.Now
	return s.start(t.TempDir(), clock)
}

// token is that of a worker now.
func (p *process) token(name string) string {
	return p.key().Sign(p.t, tokentest.Bound(issuer, "shop", "app", name, name+"-uid", p.clock.Now(), time.Hour, audience))
}

// label authenticates a worker and returns why it was refused, "" if it was not.
func (p *process) label(token string) transport.Label {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
	defer cancel()
	_, err := p.guard.AuthenticateWorker(ctx, token)
	return labelOf(p.t, err)
}

func labelOf(t *testing.T, err error) transport.Label {
	t.Helper()
	if err == nil {
		return ""
	}
	refusal, ok := errors.AsType[*transport.Refusal](err)
	if !ok {
		t.Fatalf("error %v is no refusal", err)
	}
	if (refusal.Code == protocol.RefusedUnavailable) != (refusal.Label == transport.LabelUnavailable) || refusal.RetryAfter <= 0 {
		t.Errorf("%+v is neither a refusal nor an excuse", refusal)
	}
	return refusal.Label
}

func (p *process) pass(d time.Duration) { p.clock.SetTime(p.clock.Now().Add(d)) }

func (p *process) eventually(what string, done func() bool) {
	p.t.Helper()
	transporttest.Eventually(p.t, what, done)
}

// Workers are verified without a question for each, however many there are.
func TestWorkersAreVerifiedOffline(t *testing.T) {
	p := newProcess(t)
	p.eventually("the keys are read", func() bool { return p.count(pathKeys) == 1 })
	for range 50 {
		if got := p.label(p.token("worker")); got != "" {
			t.Fatalf("refused: %s", got)
		}
	}
	if got := p.label(p.token("nobody")); got != transport.LabelPodUnknown {
		t.Errorf("a pod that is not there: %q", got)
	}
	if n := p.count(pathTokens); n != 0 {
		t.Errorf("%d token reviews", n)
	}
	if n := p.count(pathKeys); n != 1 {
		t.Errorf("the keys were read %d times", n)
	}
}

// A new key is learned from the first token that has it, whoever comes at once; tokens with unknown keys cost at most one question in
// 30 seconds; keys count side by side while the API server serves them, and not after it has dropped one.
func TestKeysRotateWithOverlap(t *testing.T) {
	p := newProcess(t)
	old := p.token("worker")
	if got := p.label(old); got != "" {
		t.Fatalf("before: %s", got)
	}
	p.pass(31 * time.Second)
	p.set(func(s *server) { s.keys = append(s.keys, tokentest.RSA(t, "second", 2048)) })
	before := p.count(pathKeys)
	var crowd sync.WaitGroup
	for range 20 {
		crowd.Go(func() {
			if got := p.label(p.token("second")); got != "" {
				t.Errorf("with the new key: %s", got)
			}
		})
	}
	crowd.Wait()
	if n := p.count(pathKeys) - before; n != 1 {
		t.Errorf("%d questions for one new key", n)
	}
	if got := p.label(old); got != "" {
		t.Errorf("with the old key: %s", got)
	}

	stranger := tokentest.ECDSA(t, "stranger").Sign(t, tokentest.Bound(issuer, "shop", "app", "worker", "worker-uid", p.clock.Now(), time.Hour, audience))
	before = p.count(pathKeys)
	for range 10 {
		if got := p.label(stranger); got != transport.LabelUnavailable {
			t.Errorf("an unknown key a moment after the keys were read: %q", got)
		}
	}
	if n := p.count(pathKeys) - before; n != 0 {
		t.Errorf("%d questions within 30 seconds", n)
	}
	p.pass(31 * time.Second)
	if got := p.label(stranger); got != transport.LabelTokenKey {
		t.Errorf("an unknown key: %q", got)
	}
	foreign := tokentest.ECDSA(t, "foreign").Sign(t, tokentest.Bound("https://elsewhere", "shop", "app", "worker", "worker-uid", p.clock.Now(), time.Hour, audience))
	before = p.count(pathKeys)
	p.pass(31 * time.Second)
	if got := p.label(foreign); got != transport.LabelTokenIssuer || p.count(pathKeys) != before {
		t.Errorf("a token of another cluster: %q, %d questions", got, p.count(pathKeys)-before)
	}

	p.set(func(s *server) { s.keys = s.keys[1:] })
	p.pass(10 * time.Minute)
	p.eventually("the old key is out", func() bool {
		return p.label(old) == transport.LabelUnavailable || p.label(old) == transport.LabelTokenKey
	})
	if got := p.label(p.token("worker")); got != "" {
		t.Errorf("with the new key alone: %s", got)
	}
}

// An API server that starts with a new signing key does not answer the first token's question: the next is due a second later, and a crowd of
// such tokens still costs few.
func TestAQuestionWithoutAnAnswerIsSoonRepeated(t *testing.T) {
	p := newProcess(t)
	if got := p.label(p.token("worker")); got != "" {
		t.Fatalf("before: %s", got)
	}
	p.pass(31 * time.Second)
	p.set(func(s *server) {
		s.keys = append(s.keys, tokentest.RSA(t, "second", 2048))
		s.answers[pathKeys] = http.StatusServiceUnavailable
	})
	before := p.count(pathKeys)
	for range 10 {
		if got := p.label(p.token("second")); got != transport.LabelUnavailable {
			t.Errorf("with a key that nobody could ask for: %q", got)
		}
	}
	if n := p.count(pathKeys) - before; n != 1 {
		t.Errorf("%d questions at once", n)
	}
	p.set(func(s *server) { delete(s.answers, pathKeys) })
	p.pass(1100 * time.Millisecond)
	if got := p.label(p.token("second")); got != "" {
		t.Errorf("a second after the API server is back: %q", got)
	}
}

// A producer that starts while the API server is away knows the keys, the pods and the pools of before: its workers come back, strangers do
// not, and what was seen to be gone stays gone.
func TestRestartInAnOutage(t *testing.T) {
	p := newProcess(t)
	dir := t.TempDir()
	p.stop()
	first := p.start(dir, p.clock)
	worker, second := first.token("worker"), first.token("second")
	for _, token := range []string{worker, second} {
		if got := first.label(token); got != "" {
			t.Fatalf("before: %s", got)
		}
	}
	seen := filepath.Join(dir, "identity-seen.json")
	first.eventually("the pods are kept", func() bool {
		first.pass(time.Second)
		raw, err := os.ReadFile(seen)
		return err == nil && strings.Contains(string(raw), "second-uid")
	})
	first.set(func(s *server) { s.pods = s.pods[:1] })
	if uid := <-first.gone; uid != "second-uid" {
		t.Fatalf("%s reported gone", uid)
	}
	first.eventually("the deletion is kept", func() bool {
		first.pass(time.Second)
		raw, err := os.ReadFile(seen)
		return err == nil && !strings.Contains(string(raw), "second-uid")
	})
	first.set(func(s *server) { s.cut = true })
	if got := first.label(worker); got != "" {
		t.Errorf("in the outage: %s", got)
	}
	first.stop()

	again := p.start(dir, p.clock)
	if got := again.label(worker); got != "" {
		t.Errorf("after the restart: %s", got)
	}
	for name, token := range map[string]string{"the pod that is gone": second, "a pod that was never seen": again.token("nobody")} {
		if got := again.label(token); got != transport.LabelUnavailable {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := again.label(tokentest.ECDSA(t, "first").Sign(t, tokentest.Bound(issuer, "shop", "app", "worker", "worker-uid", p.clock.Now(), time.Hour, audience))); got != transport.LabelTokenSignature {
		t.Errorf("a forged token: %q", got)
	}
	// Nobody can renew a token while the API server is away: one that was good when it was last heard counts on.
	again.pass(2 * time.Hour)
	if got := again.label(worker); got != "" {
		t.Errorf("two hours later: %s", got)
	}
	again.pass(23 * time.Hour)
	if got := again.label(worker); got != transport.LabelUnavailable {
		t.Errorf("when the keys are a day old: %q", got)
	}
	// The worker's pod was deleted meanwhile. No watch ever held it, so nothing but the comparison with the file can tell.
	again.set(func(s *server) { s.cut, s.pods = false, nil })
	again.eventually("the end of the pod is reported", func() bool {
		again.pass(time.Second)
		return len(again.gone) > 0
	})
	if uid := <-again.gone; uid != "worker-uid" {
		t.Errorf("%s reported gone", uid)
	}
	again.eventually("the expired token is refused when the API server is back", func() bool {
		again.pass(time.Second)
		return again.label(worker) == transport.LabelTokenExpired
	})
	if got := again.label(again.token("worker")); got != transport.LabelPodUnknown {
		t.Errorf("a fresh token of the pod that is gone: %q", got)
	}
}

// Files that are damaged, of another flow or of another format are as good as absent.
func TestDamagedRecordsAreIgnored(t *testing.T) {
	p := newProcess(t)
	dir := t.TempDir()
	p.stop()
	first := p.start(dir, p.clock)
	worker := first.token("worker")
	first.eventually("both are kept", func() bool {
		first.pass(time.Second)
		_ = first.label(worker)
		files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
		return len(files) == 2
	})
	first.set(func(s *server) { s.cut = true })
	first.stop()
	for name, spoil := range map[string]func([]byte) []byte{
		"cut off":           func(raw []byte) []byte { return raw[:len(raw)/2] },
		"empty":             func([]byte) []byte { return nil },
		"a bit":             func(raw []byte) []byte { return []byte(strings.Replace(string(raw), "worker-uid", "worker-uie", 1)) },
		"of another flow":   func(raw []byte) []byte { return []byte(strings.Replace(string(raw), "flow-uid", "other-uid", 1)) },
		"of another format": func(raw []byte) []byte { return []byte(strings.Replace(string(raw), `"format":1`, `"format":2`, 1)) },
	} {
		copied := t.TempDir()
		for _, file := range []string{"identity-keys.json", "identity-seen.json"} {
			raw, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if spoilt := spoil(slices.Clone(raw)); file == "identity-seen.json" || name != "a bit" {
				raw = spoilt
			}
			if err := os.WriteFile(filepath.Join(copied, file), raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		again := p.start(copied, p.clock)
		if got := again.label(worker); got != transport.LabelUnavailable {
			t.Errorf("%s: %q", name, got)
		}
		again.stop()
	}
	again := p.start(dir, p.clock)
	if got := again.label(worker); got != "" {
		t.Errorf("whole: %q", got)
	}
}

// Where the API server does not give its keys away, it reviews the tokens; where it does neither, nothing is decided.
func TestWithoutKeysTokensAreReviewed(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound} {
		p := newProcess(t)
		p.set(func(s *server) { s.answers[pathKeys] = status })
		p.stop()
		again := p.start(t.TempDir(), p.clock)
		if got := again.label(again.token("worker")); got != "" {
			t.Errorf("status %d: %q", status, got)
		}
		if v := again.guard.Verification(); v.Way != fencing.Reviewed || v.Reviewed == 0 || v.Offline != 0 {
			t.Errorf("status %d: %+v", status, v)
		}
		again.set(func(s *server) { s.answers[pathTokens] = http.StatusForbidden })
		again.eventually("it is known that nobody can be checked", func() bool {
			if got := again.label(again.token("second")); got != transport.LabelUnavailable {
				t.Errorf("status %d and no reviews: %q", status, got)
			}
			v := again.guard.Verification()
			return v.Way == fencing.Nowise && v.Message != ""
		})
	}
}

// Tokens are judged by the clock of the API server, whatever that of the node says.
func TestSkewedClock(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"our clock is behind": 3 * time.Hour, "our clock is ahead": -3 * time.Hour} {
		p := newProcess(t)
		p.stop()
		p.set(func(s *server) { s.ahead = ahead })
		again := p.start(t.TempDir(), p.clock)
		token := func(offset time.Duration) string {
			return again.key().Sign(t, tokentest.Bound(issuer, "shop", "app", "worker", "worker-uid", p.clock.Now().Add(ahead+offset), time.Hour, audience))
		}
		if got := again.label(token(0)); got != "" {
			t.Errorf("%s: %q", name, got)
		}
		if got := again.label(token(-2 * time.Hour)); got != transport.LabelTokenExpired {
			t.Errorf("%s, expired: %q", name, got)
		}
		if got := again.label(token(10 * time.Minute)); got != transport.LabelUnavailable {
			t.Errorf("%s, not valid yet: %q", name, got)
		}
	}
}

// submit authenticates a submitter.
func (p *process) submit(token string) (string, transport.Label) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
	defer cancel()
	submitter, err := p.guard.AuthenticateSubmitter(ctx, token, "create")
	return submitter.Subject, labelOf(p.t, err)
}

// Submitters who were allowed stay so for an hour of an outage, and no longer than their token lasts. Those who were refused, and new
// ones, are told to come back: never that they may not.
func TestSubmittersInAnOutage(t *testing.T) {
	p := newProcess(t)
	known, long := p.token("worker"), p.key().Sign(t, tokentest.Bound(issuer, "else", "app", "x", "x", p.clock.Now(), 24*time.Hour, audience))
	short := p.key().Sign(t, tokentest.Bound(issuer, "else", "app", "y", "y", p.clock.Now(), 10*time.Minute, audience))
	for _, token := range []string{known, long, short} {
		if subject, got := p.submit(token); got != "" || !strings.HasPrefix(subject, "system:serviceaccount:") {
			t.Fatalf("before: %q, %s", subject, got)
		}
	}
	if subject, got := p.submit("opaque"); got != "" || subject != "alice" {
		t.Errorf("a user that is no ServiceAccount: %q, %s", subject, got)
	}
	p.set(func(s *server) { s.forbid = true })
	refused := p.token("second")
	p.eventually("who has no permission is refused, once the server answers on a new connection", func() bool {
		_, got := p.submit(refused)
		return got == transport.LabelForbidden
	})
	p.set(func(s *server) { s.cut = true })
	p.pass(2 * time.Minute)
	began := time.Now()
	for range 20 {
		for _, token := range []string{known, long, short} {
			if _, got := p.submit(token); got != "" {
				t.Errorf("in the outage: %s", got)
			}
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("60 requests in the outage took %s", took)
	}
	for name, token := range map[string]string{"refused before": refused, "new": p.token("second") + "", "no ServiceAccount": "opaque"} {
		if _, got := p.submit(token); got != transport.LabelUnavailable {
			t.Errorf("%s: %q", name, got)
		}
	}
	p.pass(10 * time.Minute)
	if _, got := p.submit(short); got != transport.LabelTokenExpired {
		t.Errorf("with an expired token: %q", got)
	}
	p.pass(50 * time.Minute)
	if _, got := p.submit(long); got != transport.LabelUnavailable {
		t.Errorf("after more than an hour: %q", got)
	}
}

// A producer that starts while the API server is away takes jobs of whom an earlier process was told that they may submit, for what is left of
// the hour, and of nobody else.
func TestSubmittersOverARestartInAnOutage(t *testing.T) {
	p := newProcess(t)
	dir := t.TempDir()
	p.stop()
	first := p.start(dir, p.clock)
	sign := func(pod string) string {
		return first.key().Sign(t, tokentest.Bound(issuer, "else", "app", pod, pod+"-uid", first.clock.Now(), 24*time.Hour, audience))
	}
	known, refused, stranger, gone := sign("a"), sign("b"), sign("c"), sign("d")
	for _, token := range []string{known, refused, gone} {
		if _, got := first.submit(token); got != "" {
			t.Fatalf("before: %s", got)
		}
	}
	first.written(dir, 3)
	first.set(func(s *server) { s.revoked[gone] = true })
	first.eventually("a token is revoked", func() bool {
		first.pass(31 * time.Second)
		_, got := first.submit(gone)
		return got == transport.LabelPodDeleted
	})
	first.written(dir, 2)
	first.set(func(s *server) { s.forbid = true })
	first.eventually("a permission is withdrawn", func() bool {
		first.pass(31 * time.Second)
		_, got := first.submit(refused)
		return got == transport.LabelForbidden
	})
	first.written(dir, 1)
	first.set(func(s *server) { s.cut, s.forbid = true, false })
	first.stop()
	if raw := first.state(dir); strings.Contains(raw, known) {
		t.Error("the file holds a token")
	}

	second := p.start(dir, p.clock)
	for name, c := range map[string]struct {
		token string
		want  transport.Label
	}{
		"who was allowed": {known, ""}, "who was refused": {refused, transport.LabelUnavailable},
		"whose pod is gone": {gone, transport.LabelUnavailable}, "a stranger": {stranger, transport.LabelUnavailable},
	} {
		if _, got := second.submit(c.token); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	second.stop()
	p.pass(-time.Hour)
	if _, got := p.start(dir, p.clock).submit(known); got != transport.LabelUnavailable {
		t.Errorf("with a permission of the future: %q", got)
	}
	p.pass(2 * time.Hour)
	if _, got := p.start(dir, p.clock).submit(known); got != transport.LabelUnavailable {
		t.Errorf("more than an hour later: %q", got)
	}
}

// state is the file of what was seen.
func (p *process) state(dir string) string {
	p.t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "identity-seen.json"))
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	return string(raw)
}

// written waits until so many permissions are kept.
func (p *process) written(dir string, grants int) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("%d permissions are kept", grants), func() bool {
		p.pass(time.Second)
		var file struct {
			Body struct{ Grants []any }
		}
		return json.Unmarshal([]byte(p.state(dir)), &file) == nil && len(file.Body.Grants) == grants
	})
}

// A ServiceAccount or pod that is gone is found out where the API server reviews tokens, and not where it does not: then the token counts
// until it ends. The access review is asked with what a TokenReview would say.
func TestSubmitterIsRevoked(t *testing.T) {
	p := newProcess(t)
	token := p.token("worker")
	if _, got := p.submit(token); got != "" {
		t.Fatalf("before: %s", got)
	}
	spec := p.reviewed[0]
	if spec.User != "system:serviceaccount:shop:app" || spec.UID != "app-uid" || !slices.Contains(spec.Groups, "system:authenticated") ||
		!slices.Equal(spec.Extra["authentication.kubernetes.io/pod-uid"], []string{"worker-uid"}) {
		t.Errorf("asked about %+v", spec)
	}
	p.set(func(s *server) { s.revoked[token] = true })
	p.pass(31 * time.Second)
	p.eventually("the revoked token is refused", func() bool {
		_, got := p.submit(token)
		return got == transport.LabelPodDeleted
	})
	// What was said of it is not forgotten where the API server says no more.
	p.set(func(s *server) { s.cut = true })
	p.pass(31 * time.Second)
	if _, got := p.submit(token); got != transport.LabelPodDeleted {
		t.Errorf("in an outage: %q", got)
	}
	p.set(func(s *server) { s.cut, s.answers[pathTokens] = false, http.StatusForbidden })
	p.pass(31 * time.Second)
	other := p.token("second")
	for range 2 { // the first one learns that nothing is reviewed
		if _, got := p.submit(token); got != transport.LabelPodDeleted {
			t.Errorf("without reviews: %q", got)
		}
		if _, got := p.submit(other); got != "" {
			t.Errorf("without reviews, another token: %q", got)
		}
	}
}
