package handler

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	dialTimeout = 5 * time.Second
	// maxIdle is how many connections are kept for the next requests.
	maxIdle = 256
	// idleTime is the most that a connection is kept unused: shorter than any server's keep-alive, so that a request does not race the app
	// closing it. Half of it is the least.
	idleTime = time.Second
)

// connections are those to the app that no request has at the moment.
type connections struct {
	lifetime context.Context //nolint:containedctx // all of them end with it
	dialer   net.Dialer

	mu    sync.Mutex
	idle  []*connection // the last was used last
	sweep *time.Timer   // nil while there is nothing to sweep
}

func newConnections(lifetime context.Context) *connections {
	return &connections{lifetime: lifetime, dialer: net.Dialer{Timeout: dialTimeout}}
}

// take returns a connection to an address. used says that it is not a new one.
func (s *connections) take(to *address) (c *connection, used bool, err error) {
	for c := s.pop(); c != nil; c = s.pop() {
		if c.to.dial == to.dial && c.usable() {
			c.to = to
			return c, true, nil
		}
		c.Close()
	}
	c, err = connect(s.lifetime, &s.dialer, to)
	return c, false, err
}

func (s *connections) pop() *connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.idle)
	if n == 0 {
		return nil
	}
	c := s.idle[n-1]
	s.idle[n-1] = nil
	s.idle = s.idle[:n-1]
	return c
}

// put keeps a connection for the next request.
func (s *connections) put(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) == maxIdle {
		c.Close()
		return
	}
	c.stale = false
	s.idle = append(s.idle, c)
	if s.sweep == nil {
		s.sweep = time.AfterFunc(idleTime/2, s.closeStale)
	}
}

// closeStale closes the connections that were not used since it was last called.
func (s *connections) closeStale() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = slices.DeleteFunc(s.idle, func(c *connection) bool {
		if c.stale {
			c.Close()
		}
		c.stale = !c.stale
		return !c.stale
	})
	if s.sweep = nil; len(s.idle) > 0 {
		s.sweep = time.AfterFunc(idleTime/2, s.closeStale)
	}
}
