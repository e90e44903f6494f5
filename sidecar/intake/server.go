package intake

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/net/netutil"

	"github.com/workpulling/workpulling/internal/complaints"
)

// Bounds of one listener.
const (
	maxConnections  = 2048
	maxStreams      = 256
	maxHeaderBytes  = 64 << 10
	headerTimeout   = 5 * time.Second
	readTimeout     = time.Minute
	writeTimeout    = time.Minute // extended for ?wait
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 10 * time.Second
	// partingTime is how long a stopping server lets requests take their course, those that wait for a confirmation above all.
	// Then each is answered by what is known.
	partingTime = 3 * time.Second
)

// Server serves an intake on one listener.
type Server struct {
	listener net.Listener
	http     *http.Server
	tls      bool
	hurry    context.CancelFunc // ends the context of every request
}

// ListenTLS serves HTTPS, HTTP/1.1 and HTTP/2, on a TCP address.
func ListenTLS(address string, config *tls.Config, handler http.Handler) (*Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for the intake: %w", err)
	}
	server := newServer(listener, handler)
	server.http.TLSConfig = config
	server.tls = true
	return server, nil
}

// ListenLoopback serves plain HTTP on a TCP address of this machine alone; any other is an error.
func ListenLoopback(address string, handler http.Handler) (*Server, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listening for the intake: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("listening for the intake: %s is no loopback address, and without TLS no other is safe", address)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening for the intake: %w", err)
	}
	return newServer(listener, handler), nil
}

// ListenUnix serves plain HTTP on a Unix socket, which every container that mounts its directory may use.
func ListenUnix(path string, handler http.Handler) (*Server, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("removing the socket of an earlier process: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listening on the intake socket: %w", err)
	}
	if err := os.Chmod(path, 0o666); err != nil { // the app may run as another user
		return nil, errors.Join(fmt.Errorf("opening the intake socket to the app: %w", err), listener.Close())
	}
	return newServer(listener, handler), nil
}

// Address is where the server listens, with the port that was given out for port 0.
func (s *Server) Address() string { return s.listener.Addr().String() }

func newServer(listener net.Listener, handler http.Handler) *Server {
	base, hurry := context.WithCancel(context.Background())
	return &Server{
		listener: shared(netutil.LimitListener(listener, maxConnections), maxShare),
		hurry:    hurry,
		http: &http.Server{
			Handler: handler, MaxHeaderBytes: maxHeaderBytes, ErrorLog: log.New(complaints.Writer(func(line string) { log.Print(line) }), "", 0),
			ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
			HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
			BaseContext: func(net.Listener) context.Context { return base },
		},
	}
}

// Run serves until ctx ends; then it takes no new requests, lets those in progress finish for a moment, has the others answered
// by what is known, and returns nil.
func (s *Server) Run(ctx context.Context) error {
	finished := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(finished)
		parting := time.AfterFunc(partingTime, s.hurry)
		defer parting.Stop()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if s.http.Shutdown(bounded) != nil {
			_ = s.http.Close()
		}
	})
	defer s.hurry()
	var err error
	if s.tls {
		err = s.http.ServeTLS(s.listener, "", "")
	} else {
		err = s.http.Serve(s.listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		<-finished
		return nil
	}
	stop()
	return fmt.Errorf("serving the intake: %w", err)
}
