package intake_test

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/sidecar/intake"
)

// village lets in who comes from the loopback, as the account web, unless it refuses.
type village struct {
	open    atomic.Bool
	refusal atomic.Pointer[transport.Refusal]
	asked   atomic.Int64
}

func (v *village) Trusted() bool { return v.open.Load() }

func (v *village) Admit(_ context.Context, address netip.Addr) (transport.Submitter, error) {
	v.asked.Add(1)
	if refusal := v.refusal.Load(); refusal != nil {
		return transport.Submitter{}, refusal
	}
	if !address.Unmap().IsLoopback() {
		return transport.Submitter{}, &transport.Refusal{Code: protocol.RefusedIdentity, Label: transport.LabelAddressUnknown}
	}
	return transport.Submitter{Subject: "web", Neighbour: true}, nil
}

// noted are the labels of the refusals that an intake told of.
type noted struct {
	mu     sync.Mutex
	labels []transport.Label
}

func (n *noted) note(refusal *transport.Refusal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.labels = append(n.labels, refusal.Label)
}

func (n *noted) last() transport.Label {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.labels) == 0 {
		return ""
	}
	return n.labels[len(n.labels)-1]
}

func newVillage(t *testing.T) (*world, *village, *noted) {
	t.Helper()
	v, n := &village{}, &noted{}
	v.open.Store(true)
	return newWorld(t, func(_ *endpoint.ProducerOptions, o *intake.Options) { o.Neighbours, o.OnRefusal = v, n.note }), v, n
}

const nobody = "Authorization" // as a header of send it takes the token away

func TestANeighbourSubmitsAndLooksUpWithoutAToken(t *testing.T) {
	w, v, _ := newVillage(t)
	if got := w.send("POST", jobs, "x", nobody, "", "Idempotency-Key", "k"); got.status != 201 || !strings.Contains(got.body, `"id":"|%neighbour:web|k"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := w.send("POST", jobs, "x", nobody, "", "Idempotency-Key", "k"); got.status != 200 {
		t.Errorf("the same again: %d %s", got.status, got.body)
	}
	if got := w.send("GET", jobs+"/"+url.PathEscape("|%neighbour:web|k"), "", nobody, ""); got.status != 200 {
		t.Errorf("look-up: %d %s", got.status, got.body)
	}
	if got := w.send("POST", jobs, "y", "Authorization", "Bearer user:web", "Idempotency-Key", "k"); got.status != 201 || !strings.Contains(got.body, `"id":"|web|k"`) {
		t.Errorf("the same key of a user of that name: %d %s", got.status, got.body)
	}
	v.open.Store(false)
	asked := v.asked.Load()
	if got := w.send("POST", jobs, "x", nobody, "", "Idempotency-Key", "k2"); got.status != 401 || !strings.Contains(got.body, "token-missing") || v.asked.Load() != asked {
		t.Errorf("after the switch: %d %s", got.status, got.body)
	}
}

// A caller that presents anything as a credential is judged by that alone.
func TestARefusedTokenIsNotSavedByAnAddress(t *testing.T) {
	w, v, _ := newVillage(t)
	for name, value := range map[string]string{
		"wrong": "Bearer forged", "of a worker": "Bearer pod:1", "another scheme": "Basic d2ViOg==", "no scheme": "user:alice", "blank": " ",
		"empty bearer": "Bearer ", "too long": "Bearer " + strings.Repeat("x", 20<<10),
	} {
		got := w.send("POST", jobs, "x", "Authorization", value, "Idempotency-Key", name)
		if got.status != 401 || v.asked.Load() != 0 {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, w.server.URL+jobs, strings.NewReader("x"))
	request.Header["Authorization"] = []string{"", "Bearer user:alice"}
	request.Header.Set("Idempotency-Key", "two")
	response, err := w.server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized || v.asked.Load() != 0 {
		t.Errorf("two headers: %d", response.StatusCode)
	}
	w.tokens.Refuse(&transport.Refusal{Code: protocol.RefusedUnavailable, Label: transport.LabelUnavailable})
	if got := w.send("POST", jobs, "x", "Idempotency-Key", "later"); got.status != 503 || v.asked.Load() != 0 {
		t.Errorf("a token that cannot be judged: %d %s", got.status, got.body)
	}
}

// Dead letters, orphans and the audit are a person's: no address opens them.
func TestAnAddressOpensJobsAndNothingElse(t *testing.T) {
	w, v, n := newVillage(t)
	for _, closed := range [][2]string{
		{"GET", "dead-letters"}, {"GET", "dead-letters/1"}, {"GET", "dead-letters/1/payload"}, {"POST", "dead-letters/1/redrive"}, {"DELETE", "dead-letters/1"},
		{"POST", "dead-letters/redrive?all=true"}, {"POST", "dead-letters/drop?all=true"}, {"GET", "orphans"}, {"POST", "orphans/1/accept"}, {"GET", "audit"},
	} {
		got := w.send(closed[0], "/v1/flows/orders/"+closed[1], "", nobody, "")
		if got.status != 401 || !strings.Contains(got.body, "token-missing") || n.last() != transport.LabelTokenMissing {
			t.Errorf("%v: %d %s", closed, got.status, got.body)
		}
	}
	if v.asked.Load() != 0 {
		t.Errorf("an address was looked at %d times", v.asked.Load())
	}
}

// Every refusal is told by its own name, and those that may pass say when to come back.
func TestEachRefusalOfAnAddressHasItsName(t *testing.T) {
	w, v, n := newVillage(t)
	for label, want := range map[transport.Label]int{
		transport.LabelAddressUnknown: 401, transport.LabelAddressHost: 401, transport.LabelAddressShared: 401,
		transport.LabelAddressTerminating: 401, transport.LabelAddressFinished: 401, transport.LabelAddressUnchecked: 503,
	} {
		v.refusal.Store(&transport.Refusal{Label: label, Reason: "because"})
		got := w.send("POST", jobs, "x", nobody, "", "Idempotency-Key", "k")
		if got.status != want || !strings.Contains(got.body, intake.ProblemBase+string(label)+`"`) || n.last() != label {
			t.Errorf("%s: %d %s, noted %s", label, got.status, got.body, n.last())
		}
		if (got.header.Get("Retry-After") != "") != (want == 503) {
			t.Errorf("%s: Retry-After %q", label, got.header.Get("Retry-After"))
		}
	}
	if s := w.stats(); s.Accepted != 0 {
		t.Errorf("%d jobs stored", s.Accepted)
	}
}

// Only another producer of the flow says for whom it passes a request on, and only while this one trusts the namespace too.
func TestWhoMayVouchForANeighbour(t *testing.T) {
	w, v, _ := newVillage(t)
	send := func(token, key string) reply {
		return w.send("POST", jobs, "x", "Authorization", "Bearer "+token, "Workpulling-Hop", "1", "Workpulling-Neighbour", "web", "Idempotency-Key", key)
	}
	if got := send("member:producer", "a"); got.status != 201 || !strings.Contains(got.body, `"id":"|%neighbour:web|a"`) {
		t.Errorf("a member: %d %s", got.status, got.body)
	}
	if got := send("user:alice", "b"); got.status != 201 || !strings.Contains(got.body, `"id":"|alice|b"`) {
		t.Errorf("a user: %d %s", got.status, got.body)
	}
	if got := w.send("POST", jobs, "x", nobody, "", "Workpulling-Neighbour", "other", "Idempotency-Key", "c"); !strings.Contains(got.body, `"id":"|%neighbour:web|c"`) {
		t.Errorf("a neighbour that says who it is: %d %s", got.status, got.body)
	}
	if got := w.send("POST", jobs, "x", nobody, "", "Workpulling-Hop", "1", "Idempotency-Key", "d"); got.status != 401 || !strings.Contains(got.body, "token-missing") {
		t.Errorf("a request without a token that a standby passed on: %d %s", got.status, got.body)
	}
	v.open.Store(false)
	if got := send("member:producer", "e"); got.status != 401 || !strings.Contains(got.body, "token-missing") {
		t.Errorf("a member, where tokens are asked for: %d %s", got.status, got.body)
	}
	if got := w.send("POST", jobs, "x", "Authorization", "Bearer member:producer", "Idempotency-Key", "f"); got.status != 201 {
		t.Errorf("a member for the app beside it: %d %s", got.status, got.body)
	}
}
