package intake

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// One address has its share of connections and no more; another has its own, and what is closed can be had again.
func TestOneAddressHasItsShareOfConnections(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := shared(inner, 2)
	accepted := make(chan net.Conn, 10)
	go func() {
		defer close(accepted)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		for conn := range accepted {
			_ = conn.Close()
		}
	})
	dial := func(from string) net.Conn {
		t.Helper()
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	for range 2 {
		dial("127.0.0.2")
	}
	first := <-accepted
	defer func() { _ = (<-accepted).Close() }()
	if _, err := dial("127.0.0.2").Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Error("a third connection of one address was not ended")
	}
	dial("127.0.0.3")
	if other := <-accepted; other.RemoteAddr().(*net.TCPAddr).IP.String() == "127.0.0.3" {
		_ = other.Close()
	}
	_, _ = first.Close(), first.Close() // the second counts for nothing
	transporttest.Eventually(t, "there is room again", func() bool {
		conn := dial("127.0.0.2")
		select {
		case got := <-accepted:
			_ = got.Close()
			return true
		default:
			_ = conn.Close()
			return false
		}
	})
}
