package intake

import (
	"bytes"
	"io"
	"log"
	"sync"
	"time"
)

// handshakeLine is how often a line about a failed handshake is written: anybody can fail as often as they like.
const handshakeLine = time.Minute

// complaints writes what net/http logs, of failed handshakes one line in a while.
type complaints struct {
	to  io.Writer
	now func() time.Time

	mu   sync.Mutex
	last time.Time
}

// newComplaints is for an http.Server.
func newComplaints() *log.Logger {
	return log.New(&complaints{to: log.Writer(), now: time.Now}, "", log.LstdFlags) //nolint:forbidigo // the pace of a log
}

// Write implements io.Writer, for one line.
func (c *complaints) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("TLS handshake error")) && !c.due() {
		return len(line), nil
	}
	return c.to.Write(line)
}

func (c *complaints) due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if now.Sub(c.last) < handshakeLine {
		return false
	}
	c.last = now
	return true
}
