package simulation

import (
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
)

// localClock is the monotonic clock of one process. It begins at zero, and its rate differs from the world's by some parts in a
// million: no two machines' clocks agree, not even in how fast they go.
type localClock struct {
	boot  time.Duration
	drift int64
}

const million = 1_000_000

// newClock starts the clock of a process.
func (w *world) newClock() localClock {
	c := localClock{boot: w.now}
	if most := w.profile.Drift; most > 0 {
		if c.drift = w.rng.Int64N(2*most+1) - most; c.drift != 0 {
			w.count(ClockDrifted)
		}
	}
	return c
}

// read is what the clock shows at a time of the world.
func (c localClock) read(at time.Duration) delivery.Now {
	elapsed := int64(at - c.boot)
	return time.Duration(elapsed + elapsed/million*c.drift + elapsed%million*c.drift/million)
}

// when is the first time of the world at which the clock shows at least so much.
func (c localClock) when(shows delivery.Now) time.Duration {
	at := c.boot + shows
	if c.drift == 0 {
		return at
	}
	at = c.boot + time.Duration(float64(shows)/(1+float64(c.drift)/million))
	for c.read(at) < shows {
		at++
	}
	for c.read(at-1) >= shows {
		at--
	}
	return at
}
