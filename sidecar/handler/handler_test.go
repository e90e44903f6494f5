package handler_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/handler"
)

func delivery() protocol.Delivery {
	return protocol.Delivery{
		WorkerSeq: 4, StoreSeq: 17, Attempt: 3, Redelivered: true,
		Job: protocol.Job{
			MessageID: "orders/17",
			Headers: map[string]string{
				"ce-id": "17", "ce-source": "/orders", "ce-type": "order.placed", "content-type": "application/json",
				"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "idempotency-key": "k", "authorization": "secret",
			},
			Payload: []byte(`{"n":17}`),
		},
	}
}

func target(t *testing.T, address string) func() handler.Target {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return func() handler.Target { return handler.Target{Port: int32(n), Path: "/jobs"} }
}

func TestOutcomes(t *testing.T) {
	answered := func(code string) string { return "the handler answered " + code }
	for name, tc := range map[string]struct {
		code   int
		header map[string]string
		want   endpoint.Result
	}{
		"200 confirms":                      {code: 200, want: endpoint.Result{Outcome: protocol.Confirmed}},
		"204 confirms":                      {code: 204, want: endpoint.Result{Outcome: protocol.Confirmed}},
		"422 rejects":                       {code: 422, want: endpoint.Result{Outcome: protocol.Rejected, Reason: answered("422")}},
		"reject wins over 200":              {code: 200, header: map[string]string{"Workpulling-Outcome": "reject", "Workpulling-Reason": "no such customer"}, want: endpoint.Result{Outcome: protocol.Rejected, Reason: "no such customer"}},
		"an unknown outcome is no yes":      {code: 200, header: map[string]string{"Workpulling-Outcome": "rejct"}, want: endpoint.Result{Outcome: protocol.Nacked, Reason: "the handler's Workpulling-Outcome is not understood"}},
		"500 fails":                         {code: 500, want: endpoint.Result{Outcome: protocol.Nacked, Reason: answered("500")}},
		"404 fails":                         {code: 404, want: endpoint.Result{Outcome: protocol.Nacked, Reason: answered("404")}},
		"a redirect is not followed":        {code: 302, header: map[string]string{"Location": "/elsewhere"}, want: endpoint.Result{Outcome: protocol.Nacked, Reason: answered("302")}},
		"503 fails":                         {code: 503, want: endpoint.Result{Outcome: protocol.Nacked, Reason: answered("503")}},
		"503 with Retry-After delays":       {code: 503, header: map[string]string{"Retry-After": "7"}, want: endpoint.Result{Outcome: protocol.Delayed, Reason: answered("503"), RetryAfter: 7 * time.Second}},
		"429 with Retry-After delays":       {code: 429, header: map[string]string{"Retry-After": "0"}, want: endpoint.Result{Outcome: protocol.Delayed, Reason: answered("429"), RetryAfter: time.Second}},
		"Retry-After is clamped":            {code: 429, header: map[string]string{"Retry-After": "86400"}, want: endpoint.Result{Outcome: protocol.Delayed, Reason: answered("429"), RetryAfter: time.Hour}},
		"Retry-After as a date":             {code: 429, header: map[string]string{"Retry-After": "Mon, 02 Jan 2006 15:04:35 GMT", "Date": "Mon, 02 Jan 2006 15:04:05 GMT"}, want: endpoint.Result{Outcome: protocol.Delayed, Reason: answered("429"), RetryAfter: 30 * time.Second}},
		"a Retry-After that makes no sense": {code: 429, header: map[string]string{"Retry-After": "soon"}, want: endpoint.Result{Outcome: protocol.Nacked, Reason: answered("429")}},
		"500 with Retry-After still fails":  {code: 500, header: map[string]string{"Retry-After": "7"}, want: endpoint.Result{Outcome: protocol.Nacked, Reason: answered("500")}},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				calls.Add(1)
				for key, value := range tc.header {
					w.Header().Set(key, value)
				}
				w.WriteHeader(tc.code)
			}))
			defer app.Close()
			got := handler.New(t.Context(), "/flows/orders", target(t, app.Listener.Addr().String()), nil).Handle(t.Context(), delivery())
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if calls.Load() != 1 {
				t.Errorf("the app was called %d times", calls.Load())
			}
		})
	}
}

func TestTheAppSeesACloudEvent(t *testing.T) {
	var got http.Header
	var body string
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		got, body = r.Header, r.Method+" "+r.URL.Path+" "+string(raw)
	}))
	defer app.Close()
	h := handler.New(t.Context(), "/flows/orders", target(t, app.Listener.Addr().String()), nil)

	h.Handle(t.Context(), delivery())
	want := map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": "17", "Ce-Source": "/orders", "Ce-Type": "order.placed", "Content-Type": "application/json",
		"Traceparent":               "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		handler.HeaderMessageID:     "orders/17",
		handler.HeaderAttempt:       "3",
		handler.HeaderStoreSequence: "17",
		handler.HeaderRedelivered:   "true",
		"Idempotency-Key":           "", // would make the transport replay
		"Authorization":             "",
	}
	for key, value := range want {
		if got.Get(key) != value {
			t.Errorf("%s = %q, want %q", key, got.Get(key), value)
		}
	}
	if body != `POST /jobs {"n":17}` {
		t.Errorf("the app saw %q", body)
	}

	plain := delivery()
	plain.Job.Headers = nil
	h.Handle(t.Context(), plain)
	if got.Get("Ce-Id") != "orders/17" || got.Get("Ce-Source") != "/flows/orders" || got.Get("Ce-Type") != "dev.workpulling.job" {
		t.Errorf("defaults: %v", got)
	}
}

func TestAFailedDialIsHandedBackAndReported(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	reported := false
	got := handler.New(t.Context(), "/f", target(t, address), func() { reported = true }).Handle(t.Context(), delivery())
	if got.Outcome != protocol.HandedBack || !strings.Contains(got.Reason, address) || !reported {
		t.Errorf("result %+v, reported %v", got, reported)
	}
}

// B-182: an abandoned attempt keeps its slot until the app answers.
func TestAnAbandonedAttemptIsNotCutOff(t *testing.T) {
	release := make(chan struct{})
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
			t.Error("the request was cut off")
		}
	}))
	defer app.Close()
	attempt, abandon := context.WithCancel(t.Context())
	done := make(chan endpoint.Result, 1)
	h := handler.New(t.Context(), "/f", target(t, app.Listener.Addr().String()), nil)
	go func() { done <- h.Handle(attempt, delivery()) }()
	abandon()
	select {
	case result := <-done:
		t.Fatalf("Handle returned %+v while the app was working", result)
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	if result := <-done; result.Outcome != protocol.Confirmed {
		t.Errorf("the app's late answer became %+v", result)
	}
}

// B-181: a crash of the app in the middle is a failure of that attempt, and the app is not called again for it.
func TestACrashInTheMiddleFails(t *testing.T) {
	var calls atomic.Int32
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		calls.Add(1)
		panic(http.ErrAbortHandler)
	}))
	defer app.Close()
	h := handler.New(t.Context(), "/f", target(t, app.Listener.Addr().String()), nil)
	for range 3 {
		if result := h.Handle(t.Context(), delivery()); result.Outcome != protocol.Nacked {
			t.Errorf("result %+v", result)
		}
	}
	if calls.Load() != 3 {
		t.Errorf("the app was called %d times for 3 deliveries", calls.Load())
	}
}

// A port that was configured by mistake, where nobody listens, says nothing about the app on the other one: it lives, and so do its handlers.
func TestAnotherPortIsNoRestart(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var where atomic.Pointer[handler.Target]
	right, wrong := target(t, listener.Addr().String())(), target(t, transporttest.FreeAddress(t))()
	where.Store(&right)
	reports := make(chan handler.Sight)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go handler.Probe(ctx, func() handler.Target { return *where.Load() }, nil, func() bool { return true }, func(sight handler.Sight) {
		select {
		case reports <- sight:
		case <-ctx.Done():
		}
	})
	for _, look := range []struct {
		at   handler.Target
		want handler.Sight
	}{{right, handler.Sight{Ready: true}}, {wrong, handler.Sight{}}, {right, handler.Sight{Ready: true}}} {
		where.Store(&look.at)
		if sight := <-reports; sight != look.want {
			t.Fatalf("port %d was reported as %+v, want %+v", look.at.Port, sight, look.want)
		}
	}
}

func TestProbeReportsChanges(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	reports := make(chan handler.Sight)
	poke := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go handler.Probe(ctx, target(t, address), poke, func() bool { return true }, func(sight handler.Sight) {
		select {
		case reports <- sight:
		case <-ctx.Done():
		}
	})
	if sight := <-reports; sight != (handler.Sight{Ready: true}) {
		t.Fatalf("a listening app was reported as %+v", sight)
	}
	listener.Close() // nobody pokes: it is looked often
	if sight := <-reports; sight != (handler.Sight{}) {
		t.Fatalf("a closed port was reported as %+v", sight)
	}
	again, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if sight := <-reports; sight != (handler.Sight{Ready: true, Replaced: true}) {
		t.Fatalf("the app's return was reported as %+v", sight)
	}
}
