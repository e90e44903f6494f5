package health_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/health"
)

func TestProbes(t *testing.T) {
	var ready atomic.Bool
	address := transporttest.FreeAddress(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- health.Serve(ctx, address, health.Checks{
			Startup: func() error { return errors.New("not listening yet") },
			Readiness: func() error {
				if ready.Load() {
					return nil
				}
				return errors.New("draining")
			},
		})
	}()
	get := func(path string) (int, string) {
		answer, err := http.Get("http://" + address + path)
		if err != nil {
			return 0, ""
		}
		defer answer.Body.Close()
		raw, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, strings.TrimSpace(string(raw))
	}
	transporttest.Eventually(t, "it listens", func() bool { code, _ := get("/healthz"); return code != 0 })
	for _, c := range []struct {
		path  string
		ready bool
		code  int
		says  string
	}{
		{"/healthz", false, 200, "ok"}, // no check is a pass
		{"/startupz", true, 503, "not listening yet"},
		{"/readyz", false, 503, "draining"},
		{"/readyz", true, 200, "ok"},
		{"/readyz", false, 503, "draining"},
		{"/", true, 404, "404 page not found"},
	} {
		ready.Store(c.ready)
		if code, body := get(c.path); code != c.code || body != c.says {
			t.Errorf("%s: %d %q, want %d %q", c.path, code, body, c.code, c.says)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the end of ctx is an error: %v", err)
	}
}

func TestAnAddressInUseIsAnError(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := health.Serve(t.Context(), listener.Addr().String(), health.Checks{}); err == nil || !strings.Contains(err.Error(), listener.Addr().String()) {
		t.Errorf("Serve = %v", err)
	}
}
