package transporttest

import (
	"fmt"
	"net"
	"testing"
)

func TestFindPort(t *testing.T) {
	for range 20 {
		port, err := FindPort()
		if err != nil {
			t.Fatal(err)
		}
		if port < lowestPort || port >= highestPort {
			t.Errorf("port %d is not between %d and %d", port, lowestPort, highestPort)
		}
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
	}
}
