package surface

import "testing"

// Every cell, on the real servers.
func TestTheTable(t *testing.T) {
	w := newWorld(t)
	for _, as := range columns {
		t.Run(string(as), func(t *testing.T) {
			w.trust(as.trusting())
			for _, at := range httpListeners {
				w.caller(at, as).try(t)
			}
			for at := range grpcListeners {
				w.tryGRPC(t, at, as)
			}
		})
	}
}
