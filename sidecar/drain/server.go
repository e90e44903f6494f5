package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/sidecar/socket"
)

const maxHeaderBytes = 16 << 10

// Worker is what can be drained.
type Worker interface {
	StartDrain()
	Drained() <-chan struct{}
	Status() delivery.ConsumerStatus
}

// Report is the answer to POST /drain and GET /status.
type Report struct {
	Drained   bool `json:"drained"`
	Running   int  `json:"running"`
	Buffered  int  `json:"buffered"`
	Unsettled int  `json:"unsettled"`
}

// Server answers on the Unix socket.
type Server struct {
	listener net.Listener
	http     *http.Server
}

// Listen opens the socket at path, replacing what an earlier process of the same pod left there. Its mode lets every user in
// the pod connect, for the app may run as any.
func Listen(path string, worker Worker) (*Server, error) {
	listener, err := socket.Listen(path)
	if err != nil {
		return nil, fmt.Errorf("opening the drain socket: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /drain", func(w http.ResponseWriter, r *http.Request) { drain(w, r, worker) })
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, worker.Status()) })
	return &Server{listener: listener, http: &http.Server{
		Handler: mux, MaxHeaderBytes: maxHeaderBytes, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute,
	}}, nil
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.http.Close() })
	defer stop()
	if err := s.http.Serve(s.listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the drain socket: %w", err)
	}
	return nil
}

// drain starts a drain and waits. The query "timeoutSeconds" bounds the wait; without it the wait ends with the connection.
func drain(w http.ResponseWriter, r *http.Request, worker Worker) {
	ctx := r.Context()
	if text := r.URL.Query().Get("timeoutSeconds"); text != "" {
		seconds, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			http.Error(w, "timeoutSeconds is not a number of seconds", http.StatusBadRequest)
			return
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
		defer cancel()
	}
	worker.StartDrain()
	select {
	case <-worker.Drained():
	case <-ctx.Done():
	}
	// A caller that has sent all it will looks like one that left, and may be answered still: what is drained is said to be.
	select {
	case <-worker.Drained():
		answer(w, http.StatusOK, worker.Status())
	default:
		answer(w, http.StatusGatewayTimeout, worker.Status())
	}
}

func answer(w http.ResponseWriter, code int, status delivery.ConsumerStatus) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	// A failed write means that the caller is gone; there is nobody left to tell.
	_ = json.NewEncoder(w).Encode(Report{
		Drained: status.Drained, Running: status.Running, Buffered: status.Buffered, Unsettled: status.Unsettled,
	})
}
