package delivery

import (
	"fmt"
	"testing"
	"time"
)

// throughput counts the jobs that a flow confirms in ten seconds over a queue that takes a while for each write. Its endpoint holds
// at most credits submissions, its worker is never the bottleneck.
func throughput(t *testing.T, latency time.Duration, credits int) int {
	t.Helper()
	w := newWorld(t, nil)
	w.worker("a", func(c *ConsumerConfig) { c.Window, c.Concurrency = 10_000, 10_000 }).serve(confirmAll)
	p := w.producer(credits)
	w.holdApply = true
	for end := w.now + 10*time.Second; w.now < end; {
		if missing := 2*credits - len(p.todo); missing > 0 {
			w.submit(p, fmt.Sprint("at ", w.now, " "), missing)
		}
		w.advance(latency)
		held := w.held
		w.held = nil
		for _, f := range held {
			w.later(f)
		}
		w.run()
	}
	return int(w.ctl.Stats().Confirmed)
}

// The model: one write is in flight at a time and takes whatever has gathered. A credit comes back after the write that stores its
// job, and the write after it takes accept and confirm along with the next store. So a flow does about credits jobs a round trip.
func TestB225_ThroughputFollowsTheLatencyOfTheQueue(t *testing.T) {
	for _, latency := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		rounds := int(10 * time.Second / latency)
		for _, credits := range []int{1, 100} {
			if credits == 100 && latency == time.Millisecond {
				continue // a million steps say no more than the others
			}
			got := throughput(t, latency, credits)
			if low, high := rounds*credits/2-2*credits, rounds*credits; got < low || got > high {
				t.Errorf("%v a write and %d credits: %d jobs in ten seconds, the model says %d to %d", latency, credits, got, low, high)
			}
		}
	}
}
