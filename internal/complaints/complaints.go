// Package complaints paces what net/http logs of its callers, whom nobody knows yet when they do wrong.
//
// Invariants:
//   - Of what callers do wrong there is one line of each kind in a minute, however many callers do it.
//   - What we do wrong, which makes a handler panic, is told all.
package complaints

import (
	"bytes"
	"io"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// pause is how often a line of one kind is written: anybody can break off a handshake, or HTTP/2, as often as they like.
	pause = time.Minute
	// kindBytes is how much of a line tells its kind. No line of net/http has a word of a caller in that.
	kindBytes = 20
)

type complaints struct {
	tell  func(line string)
	clock clock.PassiveClock

	mu   sync.Mutex
	last map[string]time.Time // by kind
}

// Writer is for a log.Logger without flags and prefix, such as that of an http.Server. tell gets the lines that are due.
func Writer(tell func(line string)) io.Writer {
	return &complaints{tell: tell, clock: clock.RealClock{}, last: map[string]time.Time{}}
}

// Write implements io.Writer, for one line.
func (c *complaints) Write(line []byte) (int, error) {
	if isOurs(line) || c.due(string(line[:min(len(line), kindBytes)])) {
		c.tell(string(line))
	}
	return len(line), nil
}

func isOurs(line []byte) bool {
	return bytes.HasPrefix(line, []byte("http: panic serving")) || bytes.HasPrefix(line, []byte("http2: panic serving"))
}

func (c *complaints) due(kind string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	if last, told := c.last[kind]; told && now.Sub(last) < pause {
		return false
	}
	c.last[kind] = now
	return true
}
