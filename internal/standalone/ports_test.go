package standalone

import (
	"errors"
	"net"
	"strconv"
	"testing"
)

// Runs never share a port, and none is given out that somebody listens on.
func TestPorts(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	take := func(p *ports) int {
		t.Helper()
		port, err := p.take()
		if err != nil {
			t.Fatal(err)
		}
		return port
	}
	made := func() *ports {
		p, err := newPorts(0.5)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	one, other, third := made(), made(), made()
	defer other.close()
	defer third.close()
	a, b := take(one), take(other)
	listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(b+1))
	if err == nil { // else somebody listens there already, which is as good
		defer listener.Close()
	}
	if c := take(third); a == b || c == a || c == b || c == b+1 {
		t.Errorf("gave out %d, %d and %d while somebody listens on %d", a, b, c, b+1)
	}
	one.close()
	if again := take(made()); again != a {
		t.Errorf("gave out %d after %d was given back", again, a)
	}
	all := made()
	defer all.close()
	for range portCount {
		if _, err = all.take(); err != nil {
			break
		}
	}
	if _, err = all.take(); !errors.Is(err, errNoPort) {
		t.Errorf("all ports are given out, and then: %v", err)
	}
}
