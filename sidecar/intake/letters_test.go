package intake_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/sidecar/intake"
)

const letters = "/v1/flows/orders/dead-letters"

// graveyard is a world with dead letters: those with the keys a0…, rejected because "broken", and b0…, because "unknown".
type graveyard struct {
	*world
	healed atomic.Bool
	mu     sync.Mutex
	ran    map[string]int
}

func newGraveyard(t *testing.T, of int, edit func(*endpoint.ProducerOptions, *intake.Options)) *graveyard {
	t.Helper()
	g := &graveyard{world: newWorld(t, edit), ran: map[string]int{}}
	g.work(func(_ context.Context, d protocol.Delivery) endpoint.Result {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ran[d.Job.MessageID]++
		if g.healed.Load() {
			return endpoint.Result{Outcome: protocol.Confirmed}
		}
		if strings.HasPrefix(d.Job.Headers["ce-id"], "a") {
			return endpoint.Result{Outcome: protocol.Rejected, Reason: "broken"}
		}
		return endpoint.Result{Outcome: protocol.Rejected, Reason: "unknown"}
	})
	var body strings.Builder
	for n := range of {
		body.WriteString(eventLine(fmt.Sprint("a", n), "x") + "\n" + eventLine(fmt.Sprint("b", n), "x") + "\n")
	}
	for _, a := range g.send("POST", jobs+"?wait=confirmed", body.String(), "Content-Type", ndjson).lines(t) {
		if a.Status != 409 {
			t.Fatalf("%+v", a)
		}
	}
	return g
}

type letterPage struct {
	Items []struct {
		ID           string
		Sequence     int64
		Reason       string
		Since        time.Time
		PayloadBytes int
	}
	Next int64
}

func (g *graveyard) list(query string) (page letterPage) {
	g.t.Helper()
	got := g.send("GET", letters+query, "")
	if got.status != 200 {
		g.t.Fatalf("%s: %d %s", query, got.status, got.body)
	}
	got.json(g.t.(*testing.T), &page)
	return page
}

func TestDeadLettersAreChosen(t *testing.T) {
	g := newGraveyard(t, 4, nil)
	all := g.list("")
	middle := all.Items[3].Since.UTC().Format(time.RFC3339Nano)
	for query, want := range map[string]int{
		"":                               8,
		"?reason=brok":                   4,
		"?reason=nothing":                0,
		"?id=" + url.QueryEscape("/s|b"): 4,
		"?id=" + url.QueryEscape("s|b"):  0,
		"?from=" + url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339)): 0,
		"?to=" + url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339)):   8,
		"?all=true": 8,
		"?limit=0":  0,
	} {
		if got := g.list(query); len(got.Items) != want || got.Next != 0 {
			t.Errorf("%s: %d letters, next %d, want %d", query, len(got.Items), got.Next, want)
		}
	}
	before, since := g.list("?to="+url.QueryEscape(middle)), g.list("?from="+url.QueryEscape(middle))
	if len(before.Items)+len(since.Items) != 8 || len(since.Items) == 0 {
		t.Errorf("%d before and %d since %s", len(before.Items), len(since.Items), middle)
	}
	page := g.list("?reason=broken&limit=3")
	if len(page.Items) != 3 || page.Next != page.Items[2].Sequence {
		t.Errorf("%+v", page)
	}
	if rest := g.list(fmt.Sprintf("?reason=broken&limit=3&after=%d", page.Next)); len(rest.Items) != 1 || rest.Next != 0 {
		t.Errorf("%+v", rest)
	}
	for _, query := range []string{"?from=yesterday", "?to=1", "?all=yes", "?all=true&reason=x", "?limit=-1"} {
		if got := g.send("GET", letters+query, ""); got.problem(t).Status != 400 {
			t.Errorf("%s: %d", query, got.status)
		}
	}
}

func TestDeadLettersAreRedrivenByTheirReason(t *testing.T) {
	g := newGraveyard(t, 4, nil)
	g.healed.Store(true)
	for _, path := range []string{letters + "/redrive", letters + "/drop"} {
		if got := g.send("POST", path, ""); got.problem(t).Status != 400 {
			t.Errorf("without a word which: %d %s", got.status, got.body)
		}
	}
	var first, rest struct{ Done, Gone, Next int64 }
	g.send("POST", letters+"/redrive?reason=broken&limit=3", `{"reason":"repaired"}`).json(t, &first)
	if first.Done != 3 || first.Gone != 0 || first.Next == 0 {
		t.Errorf("%+v", first)
	}
	g.send("POST", fmt.Sprintf("%s/redrive?reason=broken&limit=3&after=%d", letters, first.Next), "").json(t, &rest)
	if rest.Done != 1 || rest.Next != 0 {
		t.Errorf("%+v", rest)
	}
	for n := range 4 {
		id := fmt.Sprintf("/s|a%d", n)
		g.until(id+" is confirmed", func() bool {
			state, err := g.producer.Lookup(t.Context(), id)
			return err == nil && state.Status == queue.StatusConfirmed
		})
	}
	if left := g.list(""); len(left.Items) != 4 || left.Items[0].Reason != "unknown" {
		t.Errorf("left: %+v", left)
	}
	if got := g.send("GET", "/v1/flows/orders/audit", ""); strings.Count(got.body, `"action":"redrive"`) != 4 || !strings.Contains(got.body, "by alice: repaired") {
		t.Errorf("audit: %s", got.body)
	}
	var dropped struct{ Done int64 }
	g.send("POST", letters+"/drop?all=true", `{"reason":"a test"}`).json(t, &dropped)
	if left := g.list(""); dropped.Done != 4 || len(left.Items) != 0 {
		t.Errorf("%d dropped, left: %+v", dropped.Done, left)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ran["/s|b0"] != 1 || g.ran["/s|a0"] != 2 {
		t.Errorf("runs: %v", g.ran)
	}
}

func TestOneDeadLetterAndItsPayload(t *testing.T) {
	g := newGraveyard(t, 1, nil)
	one := g.list("").Items[0]
	path := fmt.Sprintf("%s/%d", letters, one.Sequence)
	if got := g.send("GET", path, ""); got.status != 200 || !strings.Contains(got.body, `"id":"/s|a0"`) || strings.Contains(got.body, `\"x\"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	got := g.send("GET", path+"/payload", "")
	if got.status != 200 || got.body != `"x"` || len(got.body) != one.PayloadBytes {
		t.Errorf("%d %q", got.status, got.body)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Ce-Id": "a0", "Ce-Source": "/s", "X-Content-Type-Options": "nosniff",
		"Content-Disposition": fmt.Sprintf(`attachment; filename="dead-letter-%d"`, one.Sequence),
	} {
		if got.header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.header.Get(name), want)
		}
	}
	for path, status := range map[string]int{
		letters + "/99": 404, letters + "/99/payload": 404, letters + "/x": 400, letters + "/0/payload": 400,
	} {
		if got := g.send("GET", path, ""); got.problem(t).Status != status {
			t.Errorf("%s: %d", path, got.status)
		}
	}
}

// verbs allows what it holds, and nothing else.
type verbs map[string]bool

func (v verbs) AuthenticateSubmitter(_ context.Context, _, verb string) (transport.Submitter, error) {
	if !v[verb] {
		return transport.Submitter{}, &transport.Refusal{Label: transport.LabelForbidden, Reason: "may not " + verb}
	}
	return transport.Submitter{Subject: "alice"}, nil
}

// Each path asks for its own verb: who may list may not read, re-drive or drop.
func TestVerbOfEachPath(t *testing.T) {
	for _, c := range []struct{ method, path, verb string }{
		{"POST", jobs, "create"},
		{"GET", jobs + "/x", "get"},
		{"GET", letters, "list"},
		{"GET", letters + "/1", "list"},
		{"GET", letters + "/1/payload", "read"},
		{"POST", letters + "/1/redrive", "update"},
		{"POST", letters + "/redrive?all=true", "update"},
		{"DELETE", letters + "/1", "delete"},
		{"POST", letters + "/drop?all=true", "delete"},
		{"GET", "/v1/flows/orders/orphans", "list"},
		{"POST", "/v1/flows/orders/orphans/1/accept", "update"},
		{"GET", "/v1/flows/orders/audit", "list"},
	} {
		allowed := verbs{}
		w := newWorld(t, func(_ *endpoint.ProducerOptions, o *intake.Options) { o.Authorizer = allowed })
		for _, verb := range []string{"create", "get", "list", "update", "delete", "read"} {
			allowed[verb] = verb != c.verb
		}
		if got := w.send(c.method, c.path, ""); got.status != 403 {
			t.Errorf("%s %s without %s: %d %s", c.method, c.path, c.verb, got.status, got.body)
		}
		clear(allowed)
		allowed[c.verb] = true
		if got := w.send(c.method, c.path, ""); got.status == 403 {
			t.Errorf("%s %s with %s: %d %s", c.method, c.path, c.verb, got.status, got.body)
		}
	}
}

// failing is a flow whose decisions fail from the third on.
type failing struct {
	*endpoint.Producer
	calls atomic.Int32
}

func (f *failing) Redrive(ctx context.Context, ref queue.JobRef, audit string) error {
	if f.calls.Add(1) > 2 {
		return endpoint.ErrUnavailable
	}
	return f.Producer.Redrive(ctx, ref, audit)
}

func TestManyDecisionsSayHowFarTheyCame(t *testing.T) {
	g := newGraveyard(t, 4, nil)
	g.healed.Store(true)
	g.options.Flow = &failing{Producer: g.producer}
	g.server.Config.Handler = intake.New(g.options).Handler()
	if got := g.send("POST", letters+"/redrive?all=true", ""); got.problem(t).Status != 503 || !strings.Contains(got.body, "2 were decided") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if left := g.list(""); len(left.Items) != 6 {
		t.Errorf("%d left", len(left.Items))
	}
}

func TestLookUpWaitsForTheEnd(t *testing.T) {
	w := newWorld(t, nil)
	w.send("POST", jobs, "x", "Idempotency-Key", "k")
	path := jobs + "/" + url.PathEscape("|alice|k")
	if got := w.send("GET", path+"?wait=confirmed&timeout=50ms", ""); got.status != 200 || !strings.Contains(got.body, `"state":"stored"`) {
		t.Errorf("nobody works: %d %s", got.status, got.body)
	}
	w.work(confirm)
	if got := w.send("GET", path+"?wait=confirmed&timeout=1m", ""); got.status != 200 || !strings.Contains(got.body, `"state":"confirmed"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := w.send("GET", path+"?wait=done", ""); got.problem(t).Status != 400 {
		t.Errorf("%d %s", got.status, got.body)
	}
}
