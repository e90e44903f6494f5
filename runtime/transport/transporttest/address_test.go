package transporttest

import (
	"fmt"
	"net"
	"runtime"
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

func TestAPortIsFoundOnce(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has names that end with a process")
	}
	port, err := FindPort()
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.GC()
	if reserve(port) {
		t.Errorf("port %d can be found again", port)
	}
}
