package transporttest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
)

// Ports of FindPort: below those that the system hands out by itself, so that no connection of a busy machine takes one in between.
const lowestPort, highestPort = 10_000, 32_000

// FindPort is a port of 127.0.0.1 on which nobody listens, for a process under test to listen on. No other call finds it while this process runs,
// in whatever process: tests of many packages look for ports at the same time, and listen later.
func FindPort() (int, error) {
	for range 1000 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		if !reserve(port) {
			continue
		}
		if listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = listener.Close()
			return port, nil
		}
	}
	return 0, errors.New("no port is free")
}

// reserve takes a port for this process, by a name that the kernel frees when the process ends. Only Linux has such names.
func reserve(port int) bool {
	if runtime.GOOS != "linux" {
		return true
	}
	name, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("@workpulling-test-port-%d", port)})
	if err == nil {
		reserved.Store(port, name)
	}
	return err == nil
}

// reserved keeps the names of this process from the garbage collector, which would close them. It maps ports to listeners.
var reserved sync.Map

// FreeAddress is 127.0.0.1 with a port of FindPort.
func FreeAddress(t testing.TB) string {
	t.Helper()
	port, err := FindPort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}
