package complaints

import (
	"log"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestComplaintsAreLoggedOnceAMinute(t *testing.T) {
	var out strings.Builder
	clock := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
	c := &complaints{tell: func(line string) { out.WriteString(line) }, pace: NewPace(clock)}
	logger := log.New(c, "", 0)
	for n := range 121 {
		logger.Printf("http: TLS handshake error from 127.0.0.1:%d: EOF", n)
		logger.Printf("http2: server connection error from 127.0.0.1:%d: connection error: PROTOCOL_ERROR: panic serving", n)
		logger.Printf("http: panic serving 127.0.0.1:%d", n)
		clock.SetTime(clock.Now().Add(time.Second))
	}
	for line, want := range map[string]int{"handshake": 3, "PROTOCOL_ERROR": 3, "http: panic": 121} {
		if got := strings.Count(out.String(), line); got != want {
			t.Errorf("%d lines with %q in two minutes and a second, want %d", got, line, want)
		}
	}
	if len(c.pace.last) != 2 {
		t.Errorf("%d kinds are remembered", len(c.pace.last))
	}
}
