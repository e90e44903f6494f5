package intake

import (
	"net"
	"sync"
)

// maxShare is how many of maxConnections one address may have: half, so that nobody shuts the door for all others by holding connections open,
// and a proxy that many are behind has room.
const maxShare = maxConnections / 2

// shares is a listener that ends connections of an address which has its share already.
type shares struct {
	net.Listener
	most int

	mu   sync.Mutex
	open map[string]int // by address without port
}

func shared(listener net.Listener, most int) *shares {
	return &shares{Listener: listener, most: most, open: map[string]int{}}
}

// Accept implements net.Listener.
func (s *shares) Accept() (net.Conn, error) {
	for {
		conn, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		address, ok := conn.RemoteAddr().(*net.TCPAddr)
		if !ok { // a Unix socket
			return conn, nil
		}
		host := address.IP.String()
		if !s.take(host) {
			_ = conn.Close() // what it wanted is not known
			continue
		}
		return &shareConn{Conn: conn, end: sync.OnceFunc(func() { s.giveBack(host) })}, nil
	}
}

func (s *shares) take(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[host] >= s.most {
		return false
	}
	s.open[host]++
	return true
}

func (s *shares) giveBack(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[host]--; s.open[host] == 0 {
		delete(s.open, host)
	}
}

type shareConn struct {
	net.Conn
	end func()
}

// Close implements net.Conn.
func (c *shareConn) Close() error {
	defer c.end()
	return c.Conn.Close()
}
