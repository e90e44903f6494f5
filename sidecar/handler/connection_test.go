package handler_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/handler"
)

// speak is an app that answers each connection as talk does, and counts them.
func speak(t *testing.T, talk func(conn net.Conn, in *bufio.Reader)) (h *handler.HTTP, connections *atomic.Int32) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connections = new(atomic.Int32)
	var talking sync.WaitGroup
	talking.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			talking.Go(func() {
				defer conn.Close()
				talk(conn, bufio.NewReader(conn))
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		talking.Wait()
	})
	return handler.New(t.Context(), "/f", target(t, listener.Addr().String()), nil), connections
}

// take reads one request, and is false at the end of the connection.
func take(in *bufio.Reader) bool {
	request, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, request.Body)
	return err == nil
}

// What an app may say, and whether it is said on the same connection the next time.
func TestAnswersOnTheWire(t *testing.T) {
	const confirmed = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	yes, broke := endpoint.Result{Outcome: protocol.Confirmed}, endpoint.Result{Outcome: protocol.Nacked, Reason: "the connection to the handler broke"}
	long := strings.Repeat("x", 70<<10)
	for name, tc := range map[string]struct {
		answer string
		want   endpoint.Result
		reused bool
	}{
		"no body":                   {answer: confirmed, want: yes, reused: true},
		"a body":                    {answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", want: yes, reused: true},
		"chunks":                    {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", want: yes, reused: true},
		"continue first":            {answer: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + confirmed, want: yes, reused: true},
		"nothing final":             {answer: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100), want: broke},
		"another protocol":          {answer: "HTTP/1.1 101 Switching Protocols\r\n\r\n", want: endpoint.Result{Outcome: protocol.Nacked, Reason: "the handler answered 101"}},
		"the connection ends":       {answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", want: yes},
		"an older version":          {answer: "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", want: yes},
		"a long body":               {answer: "HTTP/1.1 200 OK\r\nContent-Length: 71680\r\n\r\n" + long, want: yes},
		"more than an answer":       {answer: confirmed + confirmed, want: yes},
		"no HTTP":                   {answer: "hello\r\n\r\n", want: broke},
		"a body that breaks off":    {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", want: endpoint.Result{Outcome: protocol.Nacked, Reason: "the handler's answer broke off"}},
		"a head that does not end":  {answer: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+long+"\r\n", 20), want: broke},
		"a head with a broken line": {answer: "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", want: broke},
	} {
		t.Run(name, func(t *testing.T) {
			h, connections := speak(t, func(conn net.Conn, in *bufio.Reader) {
				for take(in) {
					if _, err := io.WriteString(conn, tc.answer); err != nil {
						return
					}
				}
			})
			for range 3 {
				if diff := cmp.Diff(tc.want, h.Handle(t.Context(), delivery())); diff != "" {
					t.Fatalf("result (-want +got):\n%s", diff)
				}
			}
			if n := connections.Load(); (n == 1) != tc.reused {
				t.Errorf("%d connections for 3 deliveries", n)
			}
		})
	}
}

// An app may close a connection after an answer without saying so. That is no failure of the next job.
func TestAnAppThatClosesItsConnectionsFailsNothing(t *testing.T) {
	closed := make(chan struct{})
	h, connections := speak(t, func(conn net.Conn, in *bufio.Reader) {
		take(in)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		conn.Close()
		closed <- struct{}{}
	})
	for range 5 {
		if result := h.Handle(t.Context(), delivery()); result.Outcome != protocol.Confirmed {
			t.Errorf("result %+v", result)
		}
		<-closed
	}
	if n := connections.Load(); n != 5 {
		t.Errorf("%d connections", n)
	}
}

// An app may answer a large job before it has read all of it, and never read the rest.
func TestAnAppAnswersBeforeItHasReadAll(t *testing.T) {
	answered := make(chan struct{})
	h, _ := speak(t, func(conn net.Conn, in *bufio.Reader) {
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 422 Unprocessable Entity\r\nContent-Length: 0\r\n\r\n")
		<-answered
	})
	defer close(answered)
	large := delivery()
	large.Job.Payload = make([]byte, 8<<20)
	if result := h.Handle(t.Context(), large); result.Outcome != protocol.Rejected {
		t.Errorf("result %+v", result)
	}
}

// Jobs of any size arrive whole, many at once, on connections that are used again and again.
func TestPayloadsArriveWhole(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if want := r.Header.Get("Ce-Want"); err != nil || fmt.Sprintf("%d-of-%.1s", len(raw), raw) != want {
			w.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprint(w, strings.Repeat("y", len(raw)%4096))
	}))
	defer app.Close()
	h := handler.New(t.Context(), "/f", target(t, app.Listener.Addr().String()), nil)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 40 {
				size := []int{0, 1, 256, 15 << 10, 16 << 10, 17 << 10, 300_000}[(i+worker)%7]
				d := delivery()
				d.Job.Payload = []byte(strings.Repeat(string(rune('a'+worker)), size))
				d.Job.Headers = map[string]string{"ce-want": fmt.Sprintf("%d-of-%.1s", size, d.Job.Payload)}
				if result := h.Handle(t.Context(), d); result.Outcome != protocol.Confirmed {
					t.Errorf("%d bytes: %+v", size, result)
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkHTTPHop is what one job costs between a sidecar and a Go app over HTTP, both ends in one process.
func BenchmarkHTTPHop(b *testing.B) {
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer app.Close()
	address := app.Listener.Addr().(*net.TCPAddr)
	h := handler.New(b.Context(), "/f", func() handler.Target { return handler.Target{Port: int32(address.Port), Path: "/jobs"} }, nil)
	d := delivery()
	d.Job.Payload, d.Job.Headers = make([]byte, 256), nil
	b.ReportAllocs()
	before := transporttest.ProcessorTime(b)
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if result := h.Handle(b.Context(), d); result.Outcome != protocol.Confirmed {
				b.Errorf("result %+v", result)
			}
		}
	})
	b.ReportMetric(float64(transporttest.ProcessorTime(b)-before)/float64(b.N), "cpu-ns/op")
}
