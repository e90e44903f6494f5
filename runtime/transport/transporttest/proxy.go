package transporttest

import (
	"net"
	"sync"
	"testing"
)

// Proxy forwards TCP connections to a target that may change, and fails on demand. A request is what a client sends until the target
// answers, counted over all connections.
type Proxy struct {
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex
	target   string
	frozen   chan struct{} // not nil while frozen; closed by Thaw
	closed   bool
	links    map[*link]struct{}
	cutAt    int  // requests until the cut; 0 means that there is none
	forward  bool // whether the request at the cut reaches the target
	freezeAt int  // requests until the freeze; 0 means that there is none
	overlook func(request []byte) bool
	ended    chan struct{}
}

// NewProxy listens on loopback until the test ends.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: listener, target: target, links: map[*link]struct{}{}, ended: make(chan struct{})}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		close(p.ended)
		p.mu.Unlock()
		listener.Close()
		p.Thaw()
		p.Cut()
		p.running.Wait()
	})
	return p
}

// Address is where clients dial.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Retarget sends new connections elsewhere.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Cut closes every connection; new ones work.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// CutAt closes the connection that carries the nth request from now (1 is the next). With forward the request reaches the target, which
// answers it, and the client never hears; without, the target never hears either.
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

// Overlook forwards requests that CutAt and FreezeAt do not count: those that begin with bytes of which overlook is true.
func (p *Proxy) Overlook(overlook func(request []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.overlook = overlook
}

func (p *Proxy) overlooks(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.overlook != nil && p.overlook(request)
}

// Freeze stops forwarding without closing anything: every connection is half open, and new ones get no answer (B-170).
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.freeze()
}

// FreezeAt freezes when the nth request from now (1 is the next) arrives; the target never hears of it before Thaw.
func (p *Proxy) FreezeAt(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.freezeAt = n
}

func (p *Proxy) freeze() {
	if p.frozen == nil {
		p.frozen = make(chan struct{})
	}
}

// Frozen tells whether the proxy is frozen.
func (p *Proxy) Frozen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frozen != nil
}

// Thaw forwards again, what was held back first.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.frozen != nil {
		close(p.frozen)
		p.frozen = nil
	}
}

// Lose leaves every connection frozen until the test ends, as those to a host that is gone, and thaws: new ones work.
func (p *Proxy) Lose() {
	p.mu.Lock()
	for l := range p.links {
		l.lost = true
	}
	p.mu.Unlock()
	p.Thaw()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	p.wait()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	l := &link{proxy: p, client: client, server: server}
	defer l.close()
	if !p.remember(l) {
		return
	}
	defer p.forget(l)
	var both sync.WaitGroup
	both.Go(l.requests)
	both.Go(l.answers)
	both.Wait()
}

// remember lets Cut find a link; false means that the proxy has closed, and nobody will cut this one any more.
func (p *Proxy) remember(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[l] = struct{}{}
	return !p.closed
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// count counts a request; cut tells whether its connection is to be cut.
func (p *Proxy) count() (cut, forward bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cutAt > 0 {
		p.cutAt--
		cut = p.cutAt == 0
	}
	if p.freezeAt > 0 {
		p.freezeAt--
		if p.freezeAt == 0 {
			p.freeze()
		}
	}
	return cut, p.forward
}

// pass waits until a link may forward.
func (p *Proxy) pass(l *link) {
	p.wait()
	p.mu.Lock()
	lost := l.lost
	p.mu.Unlock()
	if lost {
		<-p.ended
	}
}

// wait waits for the end of a freeze.
func (p *Proxy) wait() {
	p.mu.Lock()
	frozen := p.frozen
	p.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}
