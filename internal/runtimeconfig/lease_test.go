package runtimeconfig

import (
	"testing"
	"time"
)

// Whatever its size, a pool writes at most ten times a second, and no pool waits longer than it has to.
func TestLeaseInterval(t *testing.T) {
	for workers, want := range map[int]time.Duration{
		0: 32 * time.Second, 1: 32 * time.Second, 128: 32 * time.Second, 129: 64 * time.Second, 256: 64 * time.Second, 1000: 256 * time.Second,
		10_000: 4096 * time.Second,
	} {
		if got := LeaseInterval(workers); got != want {
			t.Errorf("%d workers renew every %s, want %s", workers, got, want)
		}
	}
	for workers := 1; workers < 20_000; workers++ {
		if rate := float64(workers) / LeaseInterval(workers).Seconds(); rate > 4 || workers > 128 && rate < 2 {
			t.Fatalf("%d workers write %.1f times a second", workers, rate)
		}
	}
	if got := LeaseDuration(20 * time.Second); got != 80*time.Second {
		t.Errorf("a Lease of 20 s is good for %s", got)
	}
}
