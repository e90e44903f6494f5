package transport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// dialStagger is how long an address may take before the next one is tried besides it.
const dialStagger = 200 * time.Millisecond

// dialAny connects to one of the addresses behind a name: the first that answers. A flow with several producers has several, and one
// that is gone must not hold a worker up for longer than dialStagger. Their order is random, so that workers spread.
func dialAny(ctx context.Context, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("dialling %s: %w", address, err)
	}
	if net.ParseIP(host) != nil {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	hosts, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("dialling %s: %w", address, err)
	}
	rand.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	return race(ctx, hosts, func(ctx context.Context, host string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	})
}

// race tries hosts one after the other, each a stagger or a failure after the one before, and returns the first connection. Those that
// come too late are closed.
func race(ctx context.Context, hosts []string, dial func(context.Context, string) (net.Conn, error)) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan result, len(hosts))
	timer := time.NewTimer(0)
	defer timer.Stop()
	next, open := 0, 0
	var errs []error
	defer func() {
		cancel()
		left := open
		go func() {
			for range left {
				if late := <-results; late.conn != nil {
					late.conn.Close()
				}
			}
		}()
	}()
	for next < len(hosts) || open > 0 {
		select {
		case <-timer.C:
			if next < len(hosts) {
				host := hosts[next]
				next++
				open++
				go func() {
					conn, err := dial(ctx, host)
					results <- result{conn, err}
				}()
				timer.Reset(dialStagger)
			}
		case r := <-results:
			open--
			if r.err == nil {
				return r.conn, nil
			}
			errs = append(errs, r.err)
			timer.Reset(0)
		case <-ctx.Done():
			return nil, errors.Join(append(errs, ctx.Err())...)
		}
	}
	return nil, errors.Join(append(errs, fmt.Errorf("none of %d addresses answers", len(hosts)))...)
}
