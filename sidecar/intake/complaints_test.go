package intake

import (
	"bytes"
	"log"
	"testing"
	"time"
)

func TestFailedHandshakesAreLoggedOnceAMinute(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1_000_000, 0)
	logger := log.New(&complaints{to: &out, now: func() time.Time { return now }}, "", 0)
	for range 121 {
		logger.Printf("http: TLS handshake error from 127.0.0.1:1: EOF")
		logger.Printf("http: panic serving")
		now = now.Add(time.Second)
	}
	if got := bytes.Count(out.Bytes(), []byte("handshake")); got != 3 {
		t.Errorf("%d lines about handshakes in two minutes and a second, want 3", got)
	}
	if got := bytes.Count(out.Bytes(), []byte("panic")); got != 121 {
		t.Errorf("%d other lines, want all 121", got)
	}
}
