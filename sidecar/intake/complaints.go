package intake

import (
	"bytes"
	"log"
	"sync"
	"time"
)

const (
	// complaintLine is how often a line of one kind is written: anybody can break off a handshake, or HTTP/2, as often as they like.
	complaintLine = time.Minute
	// kindBytes is how much of a line tells its kind. No line of net/http has a word of a caller in that.
	kindBytes = 20
)

// complaints writes what net/http logs: of what callers do wrong one line of each kind in a while, and of what we do wrong, which makes it
// panic, all.
type complaints struct {
	print func(line string)
	now   func() time.Time

	mu   sync.Mutex
	last map[string]time.Time // by kind
}

// newComplaints is for an http.Server.
func newComplaints() *log.Logger {
	print := func(line string) { log.Print(line) }
	return log.New(&complaints{print: print, now: time.Now, last: map[string]time.Time{}}, "", 0) //nolint:forbidigo // the pace of a log
}

// Write implements io.Writer, for one line.
func (c *complaints) Write(line []byte) (int, error) {
	if bytes.HasPrefix(line, []byte("http: panic serving")) || bytes.HasPrefix(line, []byte("http2: panic serving")) || c.due(string(line[:min(len(line), kindBytes)])) {
		c.print(string(line))
	}
	return len(line), nil
}

func (c *complaints) due(kind string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if last, told := c.last[kind]; told && now.Sub(last) < complaintLine {
		return false
	}
	c.last[kind] = now
	return true
}
