package transport

import (
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Keys of gRPC metadata between a standby and its callers.
const (
	// activeKey, in the trailer of a refused stream, is where the active producer is: a hint without authority. Whoever follows it
	// verifies the same server name there as everywhere.
	activeKey = "workpulling-active"
	// hopKey marks a stream that a standby has passed on, which no other standby passes on again.
	hopKey = "workpulling-hop"
)

// RefuseAsStandby ends a stream at a producer that stands by. active is host:port of the one that does not, empty where none is known.
func RefuseAsStandby(stream grpc.ServerStream, active string) error {
	if active != "" {
		stream.SetTrailer(metadata.Pairs(activeKey, active))
	}
	return status.Error(codes.Unavailable, "this producer stands by")
}

// activeOf returns the hint in the trailer of a stream that has ended, or "".
func activeOf(stream grpc.ClientStream) string {
	if values := stream.Trailer().Get(activeKey); len(values) == 1 && len(values[0]) <= maxHint {
		return values[0]
	}
	return ""
}

// maxHint bounds a hint: a host name of 253 characters, or an address, and a port.
const maxHint = 260

// Route remembers where the last refusal said that the active producer is. A hint is used once: what it leads to either works, or
// the name of the flow is looked up again. The zero value knows nothing; a nil Route never does.
type Route struct {
	mu   sync.Mutex
	hint string
}

// take returns the hint and forgets it.
func (r *Route) take() string {
	if r == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	hint := r.hint
	r.hint = ""
	return hint
}

func (r *Route) learn(hint string) {
	if r == nil || hint == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hint = hint
}
