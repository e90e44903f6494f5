package transporttest

import (
	"net"
	"sync"
)

// link is one connection through a proxy.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	lost           bool // guarded by the proxy: it forwards nothing any more

	mu        sync.Mutex
	asking    bool // bytes of a request have passed since the last answer
	swallowed bool // the answer is not to reach the client
}

func (l *link) requests() {
	l.pipe(l.server, l.client, l.ask)
}

func (l *link) answers() {
	l.pipe(l.client, l.server, l.answer)
}

// pipe forwards until an end closes, or pass says that what was read ends the link.
func (l *link) pipe(to, from net.Conn, pass func(read []byte) bool) {
	defer l.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			l.proxy.pass(l) // while frozen, nobody hears of an end
			return
		}
		if !pass(buffer[:n]) {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// ask counts the start of a request and waits for the end of a freeze; false means that the link ends here.
func (l *link) ask(read []byte) bool {
	if !l.begins(read) {
		return false
	}
	l.proxy.pass(l)
	return true
}

func (l *link) begins(read []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asking || l.proxy.overlooks(read) {
		return true
	}
	l.asking = true
	cut, forward := l.proxy.count()
	l.swallowed = cut && forward
	return !cut || forward
}

// answer waits for the end of a freeze; false means that the client is not to hear.
func (l *link) answer([]byte) bool {
	l.proxy.pass(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking = false
	return !l.swallowed
}

func (l *link) close() {
	l.client.Close()
	l.server.Close()
}
