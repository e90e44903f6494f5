package transport

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// Bounds of malformed frames: a stream may send a few, one a second on the long run; more ends it, and its pod has to wait.
const (
	malformedBurst  = 10
	malformedPerSec = 1
	coolDown        = 30 * time.Second
	maxPenalties    = 10_000
)

// Penalties remembers whose streams were ended for malformed frames (B-204). The zero value is not usable.
type Penalties struct {
	now   func() time.Time
	mu    sync.Mutex
	until map[string]time.Time
}

// NewPenalties returns an empty record that reads the given clock.
func NewPenalties(now func() time.Time) *Penalties {
	return &Penalties{now: now, until: map[string]time.Time{}}
}

// Check refuses a peer that is still cooling down.
func (p *Penalties) Check(peer string) *Refusal {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.until[peer].Sub(p.now())
	if left <= 0 {
		delete(p.until, peer)
		return nil
	}
	return &Refusal{
		Code: protocol.RefusedCoolingDown, Label: LabelCoolingDown, RetryAfter: left,
		Reason: "too many malformed frames",
	}
}

// impose lets a peer cool down.
func (p *Penalties) impose(peer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if len(p.until) >= maxPenalties {
		for other, until := range p.until {
			if !until.After(now) {
				delete(p.until, other)
			}
		}
	}
	if len(p.until) < maxPenalties {
		p.until[peer] = now.Add(coolDown)
	}
}

// Budget counts the malformed frames of one stream.
type Budget struct {
	penalties *Penalties
	peer      string
	limiter   *rate.Limiter
}

// Budget returns a fresh budget for a stream of the peer.
func (p *Penalties) Budget(peer string) *Budget {
	return &Budget{penalties: p, peer: peer, limiter: rate.NewLimiter(malformedPerSec, malformedBurst)}
}

// Spend counts one malformed frame. It returns a refusal when there were too many: the stream has to end.
func (b *Budget) Spend() *Refusal {
	if b.limiter.AllowN(b.penalties.now(), 1) {
		return nil
	}
	b.penalties.impose(b.peer)
	return b.penalties.Check(b.peer)
}
