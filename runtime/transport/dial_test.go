package transport

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// An address that does not answer holds nobody up for longer than the stagger, and nothing is left open.
func TestRace(t *testing.T) {
	open := make(chan net.Conn, 8)
	dial := func(ctx context.Context, host string) (net.Conn, error) {
		switch host {
		case "silent":
			<-ctx.Done()
			return nil, ctx.Err()
		case "refusing":
			return nil, errors.New("refused")
		case "late":
			<-ctx.Done() // it connects although nobody waits any more
		}
		conn, other := net.Pipe()
		open <- other
		return conn, nil
	}
	for name, hosts := range map[string][]string{
		"the first":                {"fine"},
		"after a refusal":          {"refusing", "fine"},
		"beside a silent one":      {"silent", "fine"},
		"beside one that is late":  {"late", "fine"},
		"after all kinds":          {"silent", "refusing", "late", "fine"},
		"the last of several dead": {"silent", "silent", "silent", "fine"},
	} {
		began := time.Now()
		conn, err := race(t.Context(), hosts, dial)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if took := time.Since(began); took > 10*dialStagger {
			t.Errorf("%s: it took %s", name, took)
		}
		conn.Close()
	}
	if _, err := race(t.Context(), []string{"refusing", "refusing"}, dial); err == nil {
		t.Error("connected to nobody")
	}
	if _, err := race(t.Context(), nil, dial); err == nil {
		t.Error("connected without an address")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := race(ctx, []string{"silent"}, dial); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	for range 8 { // each of those that were opened, two of them late, was closed at this side
		other := <-open
		_ = other.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := other.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a connection was left open: %v", err)
		}
	}
}

// A hint is used once, and one that is no address is none.
func TestRouteForgetsAHint(t *testing.T) {
	var route Route
	route.learn("10.0.0.1:9443")
	route.learn("")
	if got := route.take(); got != "10.0.0.1:9443" {
		t.Errorf("%q", got)
	}
	if got := route.take(); got != "" {
		t.Errorf("%q is used again", got)
	}
	var none *Route
	none.learn("x")
	if none.take() != "" {
		t.Error("a missing route knows something")
	}
}
