package drain_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/drain"
)

// worker drains when a test says so.
type worker struct {
	mu      sync.Mutex
	started int
	drained chan struct{}
}

func (w *worker) StartDrain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started++
}

func (w *worker) starts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.started
}

func (w *worker) Drained() <-chan struct{} { return w.drained }

func (w *worker) Status() delivery.ConsumerStatus {
	select {
	case <-w.drained:
		return delivery.ConsumerStatus{Drained: true}
	default:
		return delivery.ConsumerStatus{Running: 2, Buffered: 1, Unsettled: 3}
	}
}

// listen serves w on a socket whose place an earlier process left behind.
func listen(t *testing.T, w *worker) *http.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "drain.sock")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := drain.Listen(path, w)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("socket %v, %v: an app of another user could not connect", info, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
}

func ask(t *testing.T, client *http.Client, method, path string) (code int, report drain.Report) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://pod"+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.Header.Get("Content-Type") == "application/json" {
		if err := json.NewDecoder(answer.Body).Decode(&report); err != nil {
			t.Fatal(err)
		}
	}
	return answer.StatusCode, report
}

func TestAnswers(t *testing.T) {
	busy := drain.Report{Running: 2, Buffered: 1, Unsettled: 3}
	for _, c := range []struct {
		method, path string
		drained      bool
		code, starts int
		report       drain.Report
	}{
		{"GET", "/status", false, 200, 0, busy},
		{"POST", "/drain?timeoutSeconds=0", false, 504, 1, busy},
		{"POST", "/drain?timeoutSeconds=60", true, 200, 1, drain.Report{Drained: true}},
		{"POST", "/drain", true, 200, 1, drain.Report{Drained: true}},
		{"POST", "/drain?timeoutSeconds=-1", false, 400, 0, drain.Report{}},
		{"POST", "/drain?timeoutSeconds=1.5", false, 400, 0, drain.Report{}},
		{"POST", "/drain?timeoutSeconds=1h", false, 400, 0, drain.Report{}},
		{"POST", "/drain?timeoutSeconds=99999999999999999999", false, 400, 0, drain.Report{}},
		{"GET", "/drain", false, 405, 0, drain.Report{}},
		{"POST", "/status", false, 405, 0, drain.Report{}},
		{"POST", "/", false, 404, 0, drain.Report{}},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			w := &worker{drained: make(chan struct{})}
			if c.drained {
				close(w.drained)
			}
			code, report := ask(t, listen(t, w), c.method, c.path)
			if code != c.code || report != c.report || w.starts() != c.starts {
				t.Errorf("%d %+v after %d starts, want %d %+v after %d", code, report, w.starts(), c.code, c.report, c.starts)
			}
		})
	}
}

// The answer comes with the end of the drain, and a caller that gives up does not stop it.
func TestDrainIsAnsweredAtItsEnd(t *testing.T) {
	w := &worker{drained: make(chan struct{})}
	client := listen(t, w)
	ctx, giveUp := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://pod/drain", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if answer, err := client.Do(request); err == nil {
			answer.Body.Close()
			t.Error("answered before the end")
		}
	}()
	transporttest.Eventually(t, "the drain has begun", func() bool { return w.starts() == 1 })
	giveUp()
	<-gone
	done := make(chan int, 1)
	go func() {
		code, _ := ask(t, client, "POST", "/drain")
		done <- code
	}()
	transporttest.Eventually(t, "it is asked for again", func() bool { return w.starts() == 2 })
	close(w.drained)
	if code := <-done; code != 200 {
		t.Errorf("answered %d", code)
	}
}
