package transporttest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreeAddress is a loopback address on which nobody listens, for a process under test to listen on. Its port lies below those that the
// system hands out by itself, so that no connection of a busy machine takes it in between.
func FreeAddress(t testing.TB) string {
	t.Helper()
	const lowest, highest = 10_000, 32_000
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", lowest+rand.IntN(highest-lowest))
		if listener, err := net.Listen("tcp", address); err == nil {
			_ = listener.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}
