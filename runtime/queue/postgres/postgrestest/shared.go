package postgrestest

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

var shared struct {
	mu     sync.Mutex
	server *Server
}

// Shared is one server for all tests of a package; it starts with the first that asks and ends with Main.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		s, err := start(t, nil)
		if err != nil {
			t.Fatalf("starting PostgreSQL: %v", err)
		}
		shared.server = s
	}
	return shared.server
}

// Main runs the tests of a package that uses Shared, and returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server != nil {
		if err := shared.server.remove(); err != nil {
			fmt.Fprintln(os.Stderr, "ending PostgreSQL:", err)
			return max(code, 1)
		}
		shared.server = nil
	}
	return code
}
