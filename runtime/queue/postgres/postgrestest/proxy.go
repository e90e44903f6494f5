package postgrestest

import (
	"errors"
	"net"
	"sync"
	"testing"
)

// Proxy stands between clients and a server and breaks connections where a test wants it.
type Proxy struct {
	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	conns   map[net.Conn]bool
	resume  chan struct{} // closed while traffic flows
	cutAt   int           // requests until the cut; 0 means that there is none
	forward bool          // whether the request at the cut reaches the server
	stallAt int           // requests until the stall; 0 means that there is none
}

// NewProxy listens on a loopback port until t ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed with the test
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: target, listener: listener, conns: map[net.Conn]bool{}, resume: make(chan struct{})}
	close(p.resume)
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.Resume()
		p.CutAll()
		p.wg.Wait()
	})
	return p
}

// Address is where clients connect.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Stall holds back all traffic, in both directions and without closing anything: a black hole.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stall()
}

// StallAt stalls when the nth request from now (1 is the next) arrives; the server never hears of it before Resume.
func (p *Proxy) StallAt(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stallAt = n
}

func (p *Proxy) stall() {
	select {
	case <-p.resume:
		p.resume = make(chan struct{})
	default: // stalled already
	}
}

// Stalled tells whether a stall is on.
func (p *Proxy) Stalled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.resume:
		return false
	default:
		return true
	}
}

// Resume lets traffic flow again, what was held back first.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.resume:
	default:
		close(p.resume)
	}
}

// CutAll closes all connections; new ones work.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// CutAt closes the connection that carries the nth request from now (1 is the next), counted over all connections. With forward the
// request reaches the server, which answers it, and the client never hears; without, the server never hears either.
func (p *Proxy) CutAt(n int, forward bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutAt, p.forward = n, forward
}

// Pending tells whether the cut of CutAt has not happened, and cancels it.
func (p *Proxy) Pending() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	pending := p.cutAt > 0
	p.cutAt = 0
	return pending
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target) //nolint:noctx // closed with the client
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{proxy: p, client: client, server: server}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		p.wg.Go(l.requests)
		p.wg.Go(l.answers)
	}
}

// link is one connection through the proxy. A request is what the client sends until the server answers.
type link struct {
	proxy          *Proxy
	client, server net.Conn

	mu        sync.Mutex
	asking    bool // bytes of a request have passed since the last answer
	swallowed bool // the answer is not to reach the client
}

func (l *link) requests() {
	defer l.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.client.Read(buffer)
		if err != nil || !l.ask() {
			return
		}
		l.proxy.wait()
		if _, err := l.server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// ask counts the start of a request; false means that the connection ends here.
func (l *link) ask() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asking {
		return true
	}
	l.asking = true
	cut, forward := l.proxy.count()
	l.swallowed = cut && forward
	return !cut || forward
}

func (l *link) answers() {
	defer l.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buffer)
		if err != nil {
			return
		}
		l.proxy.wait()
		l.mu.Lock()
		l.asking = false
		swallowed := l.swallowed
		l.mu.Unlock()
		if swallowed {
			return
		}
		if _, err := l.client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (l *link) close() {
	_ = errors.Join(l.client.Close(), l.server.Close())
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	delete(l.proxy.conns, l.client)
	delete(l.proxy.conns, l.server)
}

// count counts a request; cut tells whether its connection is to be cut.
func (p *Proxy) count() (cut, forward bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cutAt > 0 {
		p.cutAt--
		cut = p.cutAt == 0
	}
	if p.stallAt > 0 {
		p.stallAt--
		if p.stallAt == 0 {
			p.stall()
		}
	}
	return cut, p.forward
}

// wait waits for the end of a stall.
func (p *Proxy) wait() {
	p.mu.Lock()
	resume := p.resume
	p.mu.Unlock()
	<-resume
}
