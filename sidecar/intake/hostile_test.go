package intake_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/sidecar/intake"
)

// gate is a queue whose writes wait at a door that is shut.
type gate struct {
	queue.WorkQueue
	mu   sync.Mutex
	door chan struct{} // nil while open
	came atomic.Int32
}

func (g *gate) shut() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	door := make(chan struct{})
	g.door = door
	return sync.OnceFunc(func() { close(door) })
}

func (g *gate) Apply(ctx context.Context, epoch queue.Epoch, batch queue.Batch) (queue.Result, error) {
	g.mu.Lock()
	door := g.door
	g.mu.Unlock()
	if door != nil {
		g.came.Add(1)
		select {
		case <-door:
		case <-ctx.Done():
			return queue.Result{}, ctx.Err()
		}
	}
	return g.WorkQueue.Apply(ctx, epoch, batch)
}

func newGatedWorld(t *testing.T) (*world, *gate) {
	t.Helper()
	g := &gate{}
	w := newWorld(t, func(p *endpoint.ProducerOptions, _ *intake.Options) {
		g.WorkQueue = p.Queue
		p.Queue = g
	})
	return w, g
}

// No answer says stored before the queue says durable.
func TestNothingIsPromisedBeforeItIsDurable(t *testing.T) {
	w, g := newGatedWorld(t)
	open := g.shut()
	defer open()
	answered := make(chan reply, 1)
	go func() { answered <- w.send("POST", jobs, "x", "Idempotency-Key", "k") }()
	w.until("the write is under way", func() bool { return g.came.Load() > 0 })
	select {
	case got := <-answered:
		t.Fatalf("answered %d while the write hangs", got.status)
	default:
	}
	open()
	if got := <-answered; got.status != 201 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// A client that goes away while its job is written has stored it once, whatever it does next.
func TestAClientThatGoesAwayStoresOnceAtMost(t *testing.T) {
	w, g := newGatedWorld(t)
	open := g.shut()
	defer open()
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.server.URL+jobs, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer user:alice")
	request.Header.Set("Idempotency-Key", "k")
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if response, err := w.server.Client().Do(request); err == nil {
			response.Body.Close()
		}
	}()
	w.until("the write is under way", func() bool { return g.came.Load() > 0 })
	leave()
	<-gone
	open()
	if got := w.send("POST", jobs, "x", "Idempotency-Key", "k"); got.status != 200 || !strings.Contains(got.body, `"new":false`) {
		t.Errorf("the repeat: %d %s", got.status, got.body)
	}
	if s := w.stats(); s.Accepted != 1 {
		t.Errorf("%d jobs stored", s.Accepted)
	}
	w.until("nobody keeps the credit", func() bool {
		state, err := w.producer.Lookup(t.Context(), "|alice|k")
		return err == nil && state.Accepted
	})
}

// Of many at once under one id exactly one is new, and one body wins.
func TestOneIDSubmittedByManyAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	for round := range 20 {
		var mu sync.Mutex
		statuses := map[int]int{}
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				got := w.send("POST", jobs, fmt.Sprint("body ", n%2), "Idempotency-Key", fmt.Sprint(round))
				mu.Lock()
				defer mu.Unlock()
				statuses[got.status]++
			})
		}
		all.Wait()
		if statuses[201] != 1 || statuses[200] != 3 || statuses[422] != 4 {
			t.Errorf("round %d: %v", round, statuses)
		}
	}
	if s := w.stats(); s.Accepted != 20 {
		t.Errorf("%d jobs stored", s.Accepted)
	}
}

func TestOneIDTwiceInABatch(t *testing.T) {
	w := newWorld(t, nil)
	event := func(id, data string) string {
		return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/s","type":"t","data":%q}`, id, data)
	}
	got := w.send("POST", jobs, "["+event("1", "a")+","+event("1", "a")+","+event("1", "b")+","+event("2", "c")+"]",
		"Content-Type", "application/cloudevents-batch+json")
	var answers []jobAnswer
	got.json(t, &answers)
	var statuses []int
	for _, a := range answers {
		statuses = append(statuses, a.Status)
	}
	if want := []int{201, 200, 422, 201}; fmt.Sprint(statuses) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v: %s", statuses, want, got.body)
	}
	if s := w.stats(); s.Accepted != 2 {
		t.Errorf("%d jobs stored", s.Accepted)
	}
}

// raw sends bytes as they are, ends its half of the connection if it is cut, and reads the answer.
func (w *world) raw(request string, cut bool) (status int, body string) {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.server.Listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		w.t.Fatal(err)
	}
	if cut {
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			w.t.Fatal(err)
		}
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	raw, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(raw)
}

func TestRequestsThatAreNotWhatTheySeem(t *testing.T) {
	const auth = "Host: x\r\nAuthorization: Bearer user:alice\r\n"
	post := "POST " + jobs + " HTTP/1.1\r\n" + auth
	for _, c := range []struct {
		name, request string
		cut           bool
		status        int
	}{
		{"shorter than it says", post + "Idempotency-Key: a\r\nContent-Length: 10\r\n\r\nshort", true, 400},
		{"chunks that end early", post + "Idempotency-Key: b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", true, 400},
		{"chunks without their end", post + "Idempotency-Key: c\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", true, 400},
		{"chunked", post + "Idempotency-Key: d\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", false, 201},
		{"two lengths", post + "Idempotency-Key: e\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", false, 400},
		{"two keys", post + "Idempotency-Key: f\r\nIdempotency-Key: g\r\nContent-Length: 5\r\n\r\nhello", false, 400},
		{"two ids", post + "Ce-Specversion: 1.0\r\nCe-Id: 1\r\nCe-Id: 2\r\nCe-Source: /s\r\nCe-Type: t\r\nContent-Length: 5\r\n\r\nhello", false, 400},
		{"two subjects", post + "Ce-Specversion: 1.0\r\nCe-Id: 1\r\nCe-Source: /s\r\nCe-Type: t\r\nCe-Subject: a\r\nCe-Subject: b\r\nContent-Length: 5\r\n\r\nhello", false, 400},
		{"compressed", post + "Idempotency-Key: h\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello", false, 415},
		{"not compressed", post + "Idempotency-Key: i\r\nContent-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello", false, 201},
		{"a second body behind the first", post + "Idempotency-Key: j\r\nContent-Length: 5\r\n\r\nhelloPOST", false, 201},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			status, body := w.raw(c.request, c.cut)
			if status != c.status {
				t.Errorf("got %d %s, want %d", status, body, c.status)
			}
			if s := w.stats(); (s.Accepted > 0) != (c.status == 201) {
				t.Errorf("answered %d and stored %d jobs", status, s.Accepted)
			}
		})
	}
}

// A compressed event is refused with words about compression, not about JSON.
func TestCompressedEventIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	var body bytes.Buffer
	squeeze := gzip.NewWriter(&body)
	if _, err := io.WriteString(squeeze, `{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1}`); err != nil {
		t.Fatal(err)
	}
	if err := squeeze.Close(); err != nil {
		t.Fatal(err)
	}
	got := w.sendReader("POST", jobs, &body, "Content-Type", "application/cloudevents+json", "Content-Encoding", "gzip")
	if got.status != 415 || !strings.Contains(got.body, "Content-Encoding") || got.header.Get("Accept-Encoding") != "identity" {
		t.Errorf("%d %s %v", got.status, got.body, got.header)
	}
}

func TestMethodsAndPaths(t *testing.T) {
	w := newWorld(t, nil)
	w.server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	source := "https://example.com/a/../b//c?d=1&e=%2F"
	event := func(id string) []string {
		return []string{"Ce-Specversion", "1.0", "Ce-Source", url.PathEscape(source), "Ce-Type", "t", "Ce-Id", url.PathEscape(id)}
	}
	for _, id := range []string{"..", ".", "a/b", "//", "%2F", "ä €", "a?b#c", "a;b", "+"} {
		created := w.send("POST", jobs, "x", event(id)...)
		if created.status != 201 {
			t.Errorf("id %q: %d %s", id, created.status, created.body)
			continue
		}
		var answer jobAnswer
		created.json(t, &answer)
		if want := source + "|" + id; answer.ID != want {
			t.Errorf("id %q became %q, want %q", id, answer.ID, want)
		}
		if found := w.send("GET", created.header.Get("Location"), ""); found.status != 200 || !strings.Contains(found.body, `"state":"stored"`) {
			t.Errorf("id %q under %s: %d %s", id, created.header.Get("Location"), found.status, found.body)
		}
	}
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", jobs, 405}, {"HEAD", jobs, 405}, {"PUT", jobs, 405}, {"DELETE", jobs, 405}, {"PATCH", jobs, 405}, {"OPTIONS", jobs, 405},
		{"GET", jobs + "/", 404}, {"POST", jobs + "/", 404}, {"POST", jobs + "/some", 405}, {"PUT", jobs + "/some", 405},
		{"HEAD", jobs + "/nobody", 404}, {"GET", jobs + "/%00", 400}, {"GET", jobs + "/%0a", 400}, {"GET", jobs + "/%ff", 400},
		{"GET", jobs + "/" + strings.Repeat("x", 257), 400}, {"GET", jobs + "/..%2f..%2fdead-letters", 404}, {"GET", jobs + "/%2e%2e", 404},
		{"GET", "/", 404}, {"POST", "/v1/flows/orders%2Fjobs", 404},
	} {
		if got := w.send(c.method, c.path, ""); got.status != c.status {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, got.status, got.body, c.status)
		}
	}
}
