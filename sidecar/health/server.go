package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Bounds of a caller, whom nobody knows. There is none on connections, for they would keep kubelet out.
const (
	maxHeaderBytes = 16 << 10
	headerTimeout  = 5 * time.Second
	wholeTimeout   = 30 * time.Second // longer than any answer takes
	idleTimeout    = time.Minute
)

// Check returns nil when fine, otherwise an error that says what is missing in words for a person.
type Check func() error

// Checks are the three probes. A nil check always passes.
type Checks struct {
	Startup   Check
	Readiness Check
	Liveness  Check
}

// Serve answers /startupz, /readyz and /healthz on address until ctx ends.
func Serve(ctx context.Context, address string, checks Checks) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /startupz", probe(checks.Startup))
	mux.HandleFunc("GET /readyz", probe(checks.Readiness))
	mux.HandleFunc("GET /healthz", probe(checks.Liveness))
	return ServeHTTP(ctx, address, mux)
}

// ServeHTTP serves a small plain-HTTP endpoint of the pod on address until ctx ends.
func ServeHTTP(ctx context.Context, address string, handler http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", address, err)
	}
	server := &http.Server{
		Handler: handler, MaxHeaderBytes: maxHeaderBytes,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: wholeTimeout, WriteTimeout: wholeTimeout, IdleTimeout: idleTimeout,
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving %s: %w", address, err)
	}
	return nil
}

func probe(check Check) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if check != nil {
			if err := check(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		fmt.Fprintln(w, "ok")
	}
}
