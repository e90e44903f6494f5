package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Printer writes lines that begin with the time since it was made. Safe for several goroutines.
type Printer struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
	now   func() time.Time
}

// New makes a printer. A nil out is silence; a nil now is time.Now.
func New(out io.Writer, now func() time.Time) *Printer {
	if out == nil {
		out = io.Discard
	}
	if now == nil {
		now = time.Now
	}
	return &Printer{out: out, start: now(), now: now}
}

// Printf writes one line.
func (p *Printer) Printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "[%4ds] %s\n", int(p.Elapsed().Seconds()), fmt.Sprintf(format, args...))
}

// Elapsed is the time since the printer was made.
func (p *Printer) Elapsed() time.Duration { return p.now().Sub(p.start) }

// While runs what is slow, and every ten seconds says what say returns.
func (p *Printer) While(say func() string, slow func() error) error {
	done := make(chan error, 1)
	go func() { done <- slow() }()
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			p.Printf("%s", say())
		}
	}
}
