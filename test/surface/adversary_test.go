package surface

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// open says whether the intake and the port for workers serve those who may call.
func (w *world) open(t *testing.T) {
	t.Helper()
	if got, status := w.caller(producerIntake, submitter).call(http.MethodGet, "/v1/flows/{flow}/jobs/{id}"); got != served {
		t.Errorf("a submitter is %s (%d)", got, status)
	}
	conn := w.dialGRPC(producerStreams, workerToken)
	defer conn.Close()
	if got := w.callGRPC(conn, "workpulling.v1.WorkPulling/Pull", true, workerToken); got != served {
		t.Errorf("a worker is %s", got)
	}
}

// Connections that say nothing, half a handshake, or a byte now and then are ended, and keep nobody out meanwhile.
func TestSlowCallersKeepNobodyOut(t *testing.T) {
	w := newWorld(t)
	const many = 200
	held := make([]net.Conn, 0, many)
	for n := range many {
		conn, err := (&net.Dialer{LocalAddr: outsider.from()}).Dial("tcp", w.at[producerIntake])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		switch n % 3 {
		case 0: // says nothing
		case 1: // half a handshake
			_, _ = conn.Write([]byte{0x16, 0x03, 0x01, 0x02})
		case 2: // a whole one, and half a request
			secure := tls.Client(conn, w.clientTLS(none, producerHost))
			if err := secure.HandshakeContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, _ = secure.Write([]byte("POST /v1/flows/orders/jobs HTTP/1.1\r\nHost: x\r\n"))
		}
		held = append(held, conn)
	}
	w.open(t)
	deadline := time.Now().Add(30 * time.Second)
	for n, conn := range held {
		_ = conn.SetReadDeadline(deadline)
		if _, err := io.Copy(io.Discard, conn); err != nil && isTimeout(err) {
			t.Fatalf("connection %d is still open", n)
		}
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error) //nolint:errorlint // as the connection gives it
	return ok && timeout.Timeout()
}

// Headers and tokens of a mebibyte are refused before anybody looks at them, on every port that is open to all, and cost a bounded amount
// of memory.
func TestLargeHeadersAndTokensAreRefused(t *testing.T) {
	w := newWorld(t)
	large := strings.Repeat("x", 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, header := range []string{"X-Large", "Authorization", "Idempotency-Key"} {
		status, err := w.post(header, large)
		if err == nil && status != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a header %s of 1 MiB is answered with %d", header, status)
		}
	}
	for _, length := range []int{17 << 10, 60 << 10} { // within the bound of headers
		if status, err := w.post("Authorization", "Bearer "+large[:length]); err != nil || status != http.StatusUnauthorized {
			t.Errorf("a token of %d bytes: %d, %v", length, status, err)
		}
	}
	for _, at := range []listener{producerStreams, operatorReports} {
		for _, name := range []string{"authorization", "x-large"} {
			if served := w.flood(at, name, large); served {
				t.Errorf("%s takes a header %s of 1 MiB", at, name)
			}
		}
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	w.open(t)
}

// post sends a header to the intake over HTTP/1.1, which has no bound of its own on the side of a client.
func (w *world) post(name, value string) (status int, err error) {
	w.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: w.clientTLS(none, producerHost)}}
	request, _ := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "https://"+w.at[producerIntake]+"/v1/flows/orders/jobs", http.NoBody)
	request.Header.Set(name, value)
	response, err := client.Do(request)
	if err != nil {
		return 0, err // the connection was cut
	}
	defer response.Body.Close()
	return response.StatusCode, nil
}

// flood sends a call with one large header frame by frame, as no decent client would, and says whether the server took it.
func (w *world) flood(at listener, name, value string) (taken bool) {
	w.t.Helper()
	config := w.clientTLS(none, grpcListeners[at])
	config.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", w.at[at], config)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, conn)
	_ = framer.WriteSettings()
	block := new(bytes.Buffer)
	encoder := hpack.NewEncoder(block)
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "https"}, {":path", "/workpulling.v1.WorkPulling/Produce"}, {":authority", "x"},
		{"content-type", "application/grpc"}, {"te", "trailers"}, {name, value},
	} {
		_ = encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	first := true
	for block.Len() > 0 {
		part := block.Next(16 << 10)
		if first {
			err = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: part, EndHeaders: block.Len() == 0})
		} else {
			err = framer.WriteContinuation(1, block.Len() == 0, part)
		}
		if first = false; err != nil {
			return false // the server has hung up
		}
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return false
		}
		switch f := frame.(type) {
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return false
		case *http2.HeadersFrame:
			decoded, _ := hpack.NewDecoder(4<<10, nil).DecodeFull(f.HeaderBlockFragment())
			for _, field := range decoded {
				if field.Name == ":status" && field.Value == "431" {
					return false
				}
			}
			return true
		}
	}
}
