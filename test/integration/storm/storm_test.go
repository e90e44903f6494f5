//go:build integration

package storm

import (
	"net/http"
	"testing"
	"time"

	"github.com/workpulling/workpulling/test/integration/environment"
)

const (
	workers = 200
	// stated is how long docs/results/scale.md says that it takes until all of them are bound; a machine that does other things as well gets
	// ten times as long.
	stated = 3 * time.Second
	// tries are how often a worker may ask on a machine that keeps it waiting for longer than its patience.
	tries = 5
	// watched is for how long what they ask for afterwards is counted.
	watched = time.Minute
)

// What docs/design/worker-lease.md and docs/design/offline-tokens.md allow, besides one look and one write of each worker that starts.
const (
	// setup is what a producer asks for whatever happens: the key set, and a list and a watch of pods, pools and Leases, each with one more try.
	setup = 14
	// looksBurst and looksASecond are the single Leases that a producer asks for.
	looksBurst, looksASecond = 20, 10
	// writesASecond are those of a whole pool, over any span.
	writesASecond = 10
	span          = 10 * time.Second
)

// A pool that starts all at once asks the API server for what is stated, and not for more: two requests of each worker, a handful of the
// producer whatever their number, no review of any token; and a pool that has started writes its Leases at its slow pace.
func TestAPoolThatStartsAtOnceStaysWithinItsBudget(t *testing.T) {
	if !environment.Own() {
		t.Skip("needs the audit log of a control plane of its own")
	}
	log := newAudit(t)
	s := newSite(t, log.options())
	s.configure(s.startProducer(), workers)
	all := s.workers(workers)

	began := time.Now()
	for _, w := range all {
		s.run("a worker", w.Run)
	}
	for look := time.Tick(20 * time.Millisecond); s.bound() < workers; <-look {
		if time.Since(began) > 10*stated {
			t.Fatalf("%d of %d workers are bound after %s", s.bound(), workers, 10*stated)
		}
	}
	bound := time.Now()
	t.Logf("%d workers bound %s after the first began", workers, bound.Sub(began).Round(10*time.Millisecond))
	<-time.After(watched)
	end := time.Now()
	if got := s.bound(); got != workers {
		t.Errorf("%d workers are bound a minute later", got)
	}

	asked := log.requests(t, s.user("worker"), began, end)
	looks, makes := only(asked, is("get")), only(asked, is("create"))
	renewals := only(asked, func(r request) bool { return r.writes() && r.Verb != "create" })
	producers := log.requests(t, s.user("producer"), time.Time{}, end)
	for name, list := range map[string][]request{"workers": asked, "renewals": renewals, "producer": producers} {
		t.Logf("%s: %d requests, busiest second %d, busiest ten seconds %d: %v", name, len(list), busiest(list, time.Second), busiest(list, span), counts(list))
	}
	if made := only(makes, func(r request) bool { return r.Status.Code == http.StatusCreated }); len(made) != workers {
		t.Errorf("%d Leases made, want %d", len(made), workers)
	}
	// A server that is slow is asked again by those whom it kept waiting.
	if least, most := workers, tries*workers; len(looks) < least || len(looks) > most || len(makes) > most {
		t.Errorf("%d looks for a Lease and %d attempts to make one, want %d of both, and %d at most", len(looks), len(makes), least, most)
	}
	if len(renewals) == 0 || len(asked) != len(looks)+len(makes)+len(renewals) {
		t.Errorf("%d requests, of which %d renew Leases", len(asked), len(renewals))
	}
	if n, most := busiest(renewals, span), int(writesASecond*span/time.Second); n > most {
		t.Errorf("the workers renewed %d Leases in %s, more than %d", n, span, most)
	}
	if n, most := busiest(producers, time.Second), setup+looksBurst+looksASecond; n > most {
		t.Errorf("the producer made %d requests in a second, more than %d", n, most)
	}
	if n, most := len(producers), setup+looksBurst+looksASecond*int(bound.Sub(began)/time.Second+1); n > most {
		t.Errorf("the producer made %d requests, more than %d", n, most)
	}
	if reviews := only(producers, func(r request) bool { return r.Object.Resource == "tokenreviews" }); len(reviews) > 0 {
		t.Errorf("%d tokens were reviewed", len(reviews))
	}
	for _, r := range asked {
		if !expected(r) || r.Object.Resource != "leases" {
			t.Errorf("a worker asked for %s %s and was answered %d", r.Verb, r.URI, r.Status.Code)
		}
	}
}

// expected is what a worker may be answered, by a server too that has more to do than it can.
func expected(r request) bool {
	switch code := r.Status.Code; code {
	case http.StatusNotFound, http.StatusTooManyRequests:
		return true
	case http.StatusConflict: // an answer came too late
		return r.writes()
	default:
		return code < http.StatusBadRequest || code >= http.StatusInternalServerError
	}
}

func is(verb string) func(request) bool {
	return func(r request) bool { return r.Verb == verb }
}
