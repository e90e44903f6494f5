package intake_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/sidecar/intake"
)

// problemBody is what RFC 9457 says of an error answer.
type problemBody struct {
	Type, Title, Detail, Instance string
	Status                        int
	RetryAfterSeconds             int
}

func (r reply) problem(t *testing.T) (p problemBody) {
	t.Helper()
	if kind := r.header.Get("Content-Type"); kind != "application/problem+json" {
		t.Errorf("an error of type %q: %d %s", kind, r.status, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), &p); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
	if p.Status != r.status || p.Title == "" || p.Detail == "" || !strings.HasPrefix(p.Type, intake.ProblemBase) {
		t.Errorf("%d %s", r.status, r.body)
	}
	return p
}

func TestKindsOfProblemsAreTold(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range intake.Problems() {
		if seen[k.Slug] || k.Slug == "" || k.Title == "" || k.Help == "" || k.Status < 400 || k.Status > 599 {
			t.Errorf("%+v", k)
		}
		seen[k.Slug] = true
	}
}

// A request may be about the server as a whole (RFC 9110, section 7.1), which the mux of net/http would answer without a word.
func TestTheWholeServerIsNoPath(t *testing.T) {
	request := httptest.NewRequest(http.MethodGet, "*", http.NoBody)
	answer := httptest.NewRecorder()
	newWorld(t, nil).server.Config.Handler.ServeHTTP(answer, request)
	if p := (reply{answer.Code, answer.Header(), answer.Body.String()}).problem(t); p.Type != intake.ProblemBase+"no-such-path" {
		t.Errorf("%+v", p)
	}
}

func TestWhatNobodyServesIsAProblemToo(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct {
		method, path string
		status       int
		slug, allow  string
	}{
		{"GET", jobs, 405, "method-not-allowed", "POST"},
		{"PUT", jobs + "/some", 405, "method-not-allowed", "GET, HEAD"},
		{"OPTIONS", jobs, 405, "method-not-allowed", "POST"},
		{"GET", "/", 404, "no-such-path", ""},
		{"POST", "/v2/flows/orders/jobs", 404, "no-such-path", ""},
		{"POST", "/v1/flows/other/jobs", 404, "unknown-flow", ""},
	} {
		got := w.send(c.method, c.path, "")
		if p := got.problem(t); p.Status != c.status || p.Type != intake.ProblemBase+c.slug || got.header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d %v %s", c.method, c.path, got.status, got.header, got.body)
		}
	}
}

// broken is a flow whose look-ups meet a bug.
type broken struct{ *endpoint.Producer }

func (broken) Lookup(context.Context, string) (queue.JobState, error) {
	panic("a bug that quotes secret-payload")
}

func TestABugIsAnsweredAndLoggedWithoutWhatItQuotes(t *testing.T) {
	w := newWorld(t, nil)
	logged := make(chan string, 10)
	w.options.Flow = broken{w.producer}
	w.options.Log = funcr.New(func(_, args string) { logged <- args }, funcr.Options{})
	answered := make(chan int, 1)
	w.options.OnAnswer = func(status int) { answered <- status }
	w.server.Config.Handler = intake.New(w.options).Handler()
	got := w.send("GET", jobs+"/x", "")
	p := got.problem(t)
	if p.Status != http.StatusInternalServerError || p.Type != intake.ProblemBase+"internal" || strings.Contains(got.body, "secret") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if line := <-logged; p.Instance == "" || !strings.Contains(line, p.Instance) || strings.Contains(line, "secret-payload") {
		t.Errorf("instance %q, log %s", p.Instance, line)
	}
	if status := <-answered; status != 500 {
		t.Errorf("counted %d", status)
	}
}

// A problem about a job that is stored leads to it.
func TestInstanceIsTheJob(t *testing.T) {
	w := newWorld(t, nil)
	w.send("POST", jobs, "x", "Idempotency-Key", "k")
	got := w.send("POST", jobs, "y", "Idempotency-Key", "k")
	p := got.problem(t)
	if found := w.send("GET", p.Instance, ""); got.status != 422 || found.status != 200 {
		t.Errorf("%d %s leads to %d", got.status, got.body, found.status)
	}
}

// A batch says how long to wait in its header too.
func TestBatchUnderBackPressureSaysWhenToComeBack(t *testing.T) {
	w := newFullWorld(t)
	got := w.send("POST", jobs, `[{"specversion":"1.0","id":"n","source":"/s","type":"t","data":1}]`, "Content-Type", "application/cloudevents-batch+json")
	var answers []struct{ Problem problemBody }
	got.json(t, &answers)
	if got.status != 207 || got.header.Get("Retry-After") == "" || len(answers) != 1 || answers[0].Problem.Status != 429 || answers[0].Problem.RetryAfterSeconds < 1 {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
}
