package prestop_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/sidecar/drain"
	"github.com/workpulling/workpulling/sidecar/prestop"
)

// worker drains when its channel is closed.
type worker struct {
	started chan struct{}
	drained chan struct{}
}

func newWorker() *worker {
	return &worker{started: make(chan struct{}, 8), drained: make(chan struct{})}
}

func (w *worker) StartDrain()              { w.started <- struct{}{} }
func (w *worker) Drained() <-chan struct{} { return w.drained }
func (w *worker) Status() delivery.ConsumerStatus {
	select {
	case <-w.drained:
		return delivery.ConsumerStatus{Drained: true}
	default:
		return delivery.ConsumerStatus{Running: 2, Unsettled: 3}
	}
}

func serve(t *testing.T, socket string, w *worker) {
	t.Helper()
	server, err := drain.Listen(socket, w)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestWaitReturnsWhenDrained(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "drain.sock")
	w := newWorker()
	serve(t, socket, w)
	go func() {
		<-w.started
		close(w.drained)
	}()
	report, err := prestop.Wait(t.Context(), socket, time.Minute)
	if err != nil || !report.Drained {
		t.Fatalf("Wait = %+v, %v; want drained", report, err)
	}
}

func TestWaitReportsWhatStillRunsAtTheTimeout(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "drain.sock")
	w := newWorker()
	serve(t, socket, w)
	_, err := prestop.Wait(t.Context(), socket, 200*time.Millisecond)
	if !errors.Is(err, prestop.ErrNotDrained) {
		t.Fatalf("Wait = %v, want ErrNotDrained", err)
	}
	select {
	case <-w.started:
	default:
		t.Fatal("the drain was never started")
	}
}

// A sidecar that restarts in the middle must not end the wait: its next process drains too.
func TestWaitOutlivesARestartOfTheSidecar(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "drain.sock")
	w := newWorker()
	result := make(chan error, 1)
	go func() {
		_, err := prestop.Wait(context.Background(), socket, time.Minute)
		result <- err
	}()
	serve(t, socket, w) // nothing listened before
	<-w.started
	close(w.drained)
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

// Whatever is wrong with the hook, the jobs come first.
func TestRunDrainsBeforeItLooksAtTheHook(t *testing.T) {
	for name, tc := range map[string]struct {
		hook    string
		wantErr string
	}{
		"no hook":        {},
		"not JSON":       {hook: "{", wantErr: "decoding the hook"},
		"tcpSocket":      {hook: `{"tcpSocket":{"port":1}}`, wantErr: "none of exec, httpGet, sleep"},
		"no such binary": {hook: `{"exec":{"command":["/nowhere/to/be/found"]}}`, wantErr: "running the hook's command"},
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "drain.sock")
			w := newWorker()
			serve(t, socket, w)
			result := make(chan error, 1)
			go func() { result <- prestop.Run(context.Background(), socket, time.Minute, tc.hook, io.Discard) }()
			select {
			case <-w.started:
			case err := <-result:
				t.Fatalf("Run = %v before the drain was asked for", err)
			}
			select {
			case err := <-result:
				t.Fatalf("Run = %v before the drain was over", err)
			default:
			}
			close(w.drained)
			if err := <-result; tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("Run = %v, want an error with %q", err, tc.wantErr)
			}
		})
	}
}

func TestRunSaysWhatStillRuns(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "drain.sock")
	serve(t, socket, newWorker())
	marker := filepath.Join(t.TempDir(), "ran")
	var log strings.Builder
	if err := prestop.Run(t.Context(), socket, 200*time.Millisecond, `{"exec":{"command":["touch","`+marker+`"]}}`, &log); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(marker); err != nil {
		t.Errorf("the hook did not run after a drain that was late: %v", err)
	}
	if !strings.Contains(log.String(), "not over in time") {
		t.Errorf("the log says %q", log.String())
	}
}

func TestHookRunsAfterwards(t *testing.T) {
	var path, header, host string
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		path, header, host = r.URL.Path, r.Header.Get("X-Why"), r.Host
		if strings.HasSuffix(path, "/bad") {
			panic(http.ErrAbortHandler)
		}
	}))
	defer app.Close()
	_, port, err := net.SplitHostPort(app.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	marker := filepath.Join(t.TempDir(), "ran")
	for name, tc := range map[string]struct {
		hook    string
		wantErr bool
		check   func(*testing.T)
	}{
		"none": {},
		"exec": {hook: `{"exec":{"command":["touch","` + marker + `"]}}`, check: func(t *testing.T) {
			if _, err := os.Stat(marker); err != nil {
				t.Error(err)
			}
		}},
		"exec that fails": {hook: `{"exec":{"command":["false"]}}`, wantErr: true},
		"http": {hook: `{"httpGet":{"path":"/bye","port":` + port + `,"httpHeaders":[{"name":"X-Why","value":"drain"},{"name":"host","value":"app.example"}]}}`, check: func(t *testing.T) {
			if path != "/bye" || header != "drain" || host != "app.example" {
				t.Errorf("the app saw %q %q %q", path, header, host)
			}
		}},
		"http that breaks": {hook: `{"httpGet":{"path":"/bad","port":` + port + `}}`, wantErr: true},
		"sleep":            {hook: `{"sleep":{"seconds":0}}`},
	} {
		t.Run(name, func(t *testing.T) {
			hook, err := prestop.ParseHook(tc.hook)
			if err != nil {
				t.Fatal(err)
			}
			if err := hook.Run(t.Context()); (err != nil) != tc.wantErr {
				t.Fatalf("Run = %v, want an error: %v", err, tc.wantErr)
			}
			if tc.check != nil {
				tc.check(t)
			}
		})
	}
}

func TestParseHookRefusesWhatItCannotRun(t *testing.T) {
	for _, text := range []string{"{", "{}", `{"tcpSocket":{"port":1}}`} {
		if _, err := prestop.ParseHook(text); err == nil {
			t.Errorf("ParseHook(%q) accepted it", text)
		}
	}
}
