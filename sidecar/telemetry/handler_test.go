package telemetry_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/sidecar/telemetry"
)

func TestHandler(t *testing.T) {
	registry := prometheus.NewRegistry()
	telemetry.RegisterCertificate(registry, &served{failure: errors.New("no such file")}, func() (transport.Bundle, error) { return transport.Bundle{}, nil })
	for name, tc := range map[string]struct {
		method, path string
		code         int
		body         string
	}{
		"a scrape":       {http.MethodGet, "/metrics", http.StatusOK, "workpulling_certificate_stale 1\n"},
		"another path":   {http.MethodGet, "/", http.StatusNotFound, ""},
		"another method": {http.MethodPost, "/metrics", http.StatusMethodNotAllowed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			telemetry.Handler(registry).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, nil))
			if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.body) {
				t.Errorf("%d %q, want %d with %q", w.Code, w.Body, tc.code, tc.body)
			}
		})
	}
}
