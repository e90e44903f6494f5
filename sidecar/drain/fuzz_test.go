package drain_test

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/workpulling/workpulling/sidecar/drain"
)

// FuzzSocket writes any bytes to the drain socket, which every process of the pod can reach: the server answers or hangs up, a drain
// begins only where one was asked for, and it goes on to serve others.
func FuzzSocket(f *testing.F) {
	w := &worker{drained: make(chan struct{})}
	close(w.drained)
	path := filepath.Join(f.TempDir(), "s")
	server, err := drain.Listen(path, w)
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Run(ctx) })
	f.Cleanup(func() {
		cancel()
		running.Wait()
	})
	for _, request := range []string{
		"POST /drain HTTP/1.1\r\nHost: sidecar\r\n\r\n",
		"POST /drain?timeoutSeconds=1 HTTP/1.1\r\nHost: sidecar\r\nContent-Length: 3\r\n\r\nabc",
		"POST /drain?timeoutSeconds=-1 HTTP/1.1\r\nHost: sidecar\r\n\r\n",
		"POST /drain?timeoutSeconds=99999999999999999999&timeoutSeconds=1;x HTTP/1.1\r\nHost: sidecar\r\n\r\n",
		"GET /status HTTP/1.0\r\n\r\n",
		"GET /status HTTP/1.1\r\nHost: sidecar\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"DELETE /drain HTTP/1.1\r\nHost: sidecar\r\n\r\n",
		"\x16\x03\x01",
		"",
	} {
		f.Add([]byte(request))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := w.starts()
		answer := exchange(t, path, raw)
		if started := w.starts() > before; started && !bytes.Contains(raw, []byte("POST")) {
			t.Errorf("%q began a drain", raw)
		}
		if len(answer) > 0 {
			first, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
			if err != nil {
				t.Fatalf("%q is answered with %q", raw, answer)
			}
			first.Body.Close()
			if first.StatusCode >= 500 && first.StatusCode != http.StatusHTTPVersionNotSupported && first.StatusCode != http.StatusNotImplemented {
				t.Errorf("%q is answered with %d", raw, first.StatusCode)
			}
		}
		if again := exchange(t, path, []byte("GET /status HTTP/1.0\r\n\r\n")); !bytes.Contains(again, []byte(" 200 OK")) {
			t.Errorf("after %q the socket answers %q", raw, again)
		}
	})
}

// exchange sends bytes, says that there are no more, and returns the answer.
func exchange(t *testing.T, path string, raw []byte) []byte {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var answer bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = answer.ReadFrom(conn) // a reset is an answer too
	}()
	_, _ = conn.Write(raw)
	_ = conn.(*net.UnixConn).CloseWrite()
	<-read
	return answer.Bytes()
}
