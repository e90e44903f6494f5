package handler

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

const (
	probeFast    = 250 * time.Millisecond // while the app does not listen, or a restart of it must not be missed
	probeSlow    = 2 * time.Second        // while it does
	probeTimeout = time.Second
)

// Sight is what a look at the app's port has shown.
type Sight struct {
	// Ready says that the app answers its port.
	Ready bool
	// Replaced says that nobody listened there before: the process that answers is not one that answered earlier. A port that was merely
	// slow does not show that, nor does another port.
	Replaced bool
}

// Probe reports whether the app answers its port, at the first look and at every change, until ctx ends. poke makes it look at
// once; a failed dial pokes it. While hurry says so it looks often, so that no restart of the app is missed; it may be nil. A target
// without a port is not looked at.
func Probe(ctx context.Context, target func() Target, poke <-chan struct{}, hurry func() bool, report func(Sight)) {
	dialer := &net.Dialer{Timeout: probeTimeout}
	known, ready, refused, address := false, false, false, ""
	for {
		where := target()
		if where.Port == 0 {
			known = false
			if !pause(ctx, poke, probeSlow) {
				return
			}
			continue
		}
		if now := where.Address(); now != address {
			address, refused = now, false
		}
		err := look(ctx, dialer, address)
		if ctx.Err() != nil {
			return
		}
		refused = refused || errors.Is(err, syscall.ECONNREFUSED)
		if now := err == nil; !known || now != ready {
			known, ready = true, now
			report(Sight{Ready: ready, Replaced: ready && refused})
			refused = refused && !ready
		}
		wait := probeSlow
		if !ready || hurry != nil && hurry() {
			wait = probeFast
		}
		if !pause(ctx, poke, wait) {
			return
		}
	}
}

// pause waits, or until it is poked; false means that ctx ended.
func pause(ctx context.Context, poke <-chan struct{}, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-poke:
	case <-timer.C:
	}
	return true
}

func look(ctx context.Context, dialer *net.Dialer, address string) error {
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
