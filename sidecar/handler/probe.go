package handler

import (
	"context"
	"net"
	"time"
)

const (
	probeFast    = 250 * time.Millisecond // while the app does not listen
	probeSlow    = 2 * time.Second        // while it does
	probeTimeout = time.Second
)

// Probe reports whether the app answers its port, at the first look and at every change, until ctx ends. poke makes it look at
// once; a failed dial pokes it.
func Probe(ctx context.Context, target func() Target, poke <-chan struct{}, report func(ready bool)) {
	dialer := &net.Dialer{Timeout: probeTimeout}
	known, ready := false, false
	for {
		now := listens(ctx, dialer, target().Address())
		if ctx.Err() != nil {
			return
		}
		if !known || now != ready {
			known, ready = true, now
			report(ready)
		}
		wait := probeSlow
		if !ready {
			wait = probeFast
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-poke:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func listens(ctx context.Context, dialer *net.Dialer, address string) bool {
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
