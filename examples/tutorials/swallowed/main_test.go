package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/examples/tutorials/bed"
)

func TestMain(m *testing.M) { bed.Main(m, main) }

// service fails each job once, and "poison" always. It remembers what it has done by MessageID.
type service struct {
	mu    sync.Mutex
	tried map[string]bool
	done  map[string]bool
}

func newService(t *testing.T) (*service, string) {
	t.Helper()
	s := &service{tried: map[string]bool{}, done: map[string]bool{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.Header.Get("Idempotency-Key")
	if again := s.tried[id]; err != nil || !again || string(body) == "poison" {
		s.tried[id] = true
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	s.done[id] = true
	w.WriteHeader(http.StatusNoContent)
}

// results are the MessageIDs that the service has done.
func (s *service) results() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := map[string]bool{}
	for id := range s.done {
		ids[id] = true
	}
	return ids
}

func payload(n int) string {
	if n == 0 {
		return "poison"
	}
	return "work"
}

// An error that is reported brings the job again, and one that stays leads to the dead letters, with its reason.
func TestReportedErrorsAreRetriedAndKept(t *testing.T) {
	service, address := newService(t)
	flow, app := bed.Start(t), bed.Serve(t, "-service", address)
	flow.Work("worker", app.Port())
	jobs := bed.Payloads(5, payload)
	poison := flow.Submit(false, map[string]string{"job-0": jobs["job-0"]})
	delete(jobs, "job-0")
	ids := flow.Submit(false, jobs)
	flow.Await("confirmed", ids)
	flow.Await("dead-lettered", poison)
	want := map[string]bool{}
	for _, id := range ids {
		want[id] = true
	}
	if diff := cmp.Diff(want, service.results()); diff != "" {
		t.Errorf("confirmed and done differ: %s", diff)
	}
	if letters := flow.DeadLetters(); len(letters) != 1 || !strings.Contains(letters[poison[0]], "502") {
		t.Errorf("dead letters %v", letters)
	}
}

// The mistake: everything is confirmed, nothing is done, and no dead letter tells of it. Only the two sets do.
func TestSwallowedErrorsLookLikeSuccess(t *testing.T) {
	service, address := newService(t)
	flow, app := bed.Start(t), bed.Serve(t, "-service", address, "-swallow")
	flow.Work("worker", app.Port())
	ids := flow.Submit(true, bed.Payloads(5, payload))
	flow.Await("confirmed", ids)
	if done := service.results(); len(done) != 0 {
		t.Errorf("done: %v", done)
	}
	if letters := flow.DeadLetters(); len(letters) != 0 {
		t.Errorf("dead letters %v", letters)
	}
}
