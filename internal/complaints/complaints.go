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

// Pace says which complaints are worth a line.
type Pace struct {
	clock clock.PassiveClock

	mu   sync.Mutex
	last map[string]time.Time // by kind
}

// NewPace starts with every kind due.
func NewPace(c clock.PassiveClock) *Pace { return &Pace{clock: c, last: map[string]time.Time{}} }

// Due says whether a line of a kind is due, which is once a minute; the caller then writes it.
func (p *Pace) Due(kind string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	if last, told := p.last[kind]; told && now.Sub(last) < pause {
		return false
	}
	p.last[kind] = now
	return true
}

type complaints struct {
	tell func(line string)
	pace *Pace
}

// Writer is for a log.Logger without flags and prefix, such as that of an http.Server. tell gets the lines that are due.
func Writer(tell func(line string)) io.Writer {
	return &complaints{tell: tell, pace: NewPace(clock.RealClock{})}
}

// Write implements io.Writer, for one line.
func (c *complaints) Write(line []byte) (int, error) {
	if isOurs(line) || c.pace.Due(string(line[:min(len(line), kindBytes)])) {
		c.tell(string(line))
	}
	return len(line), nil
}

func isOurs(line []byte) bool {
	return bytes.HasPrefix(line, []byte("http: panic serving")) || bytes.HasPrefix(line, []byte("http2: panic serving"))
}
