package prober

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// Moment is a reading of the machine's monotonic clock, which all processes share.
type Moment time.Duration

// Now reads the clock.
func Now() Moment {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // there is no Linux without it
	}
	return Moment(t.Nano())
}

// Pause waits, or less if ctx ends.
func Pause(ctx context.Context, length time.Duration) {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Await polls a condition, and says whether it came true in time.
func Await(ctx context.Context, limit, every time.Duration, condition func(context.Context) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !condition(ctx) {
		if ctx.Err() != nil {
			return false
		}
		Pause(ctx, every)
	}
	return true
}
