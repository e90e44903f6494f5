package transporttest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports of FindPort: below those that the system hands out by itself, so that no connection of a busy machine takes one in between.
const lowestPort, highestPort = 10_000, 32_000

// FindPort is a port of 127.0.0.1 on which nobody listens, for a process under test to listen on.
func FindPort() (int, error) {
	for range 1000 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		if listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = listener.Close()
			return port, nil
		}
	}
	return 0, errors.New("no port is free")
}

// FreeAddress is 127.0.0.1 with a port of FindPort.
func FreeAddress(t testing.TB) string {
	t.Helper()
	port, err := FindPort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}
