package endpoint

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"github.com/workpulling/workpulling/runtime/delivery"
)

const (
	// inboxDepth is how many closures may wait for the loop; beyond that streams and callers wait, which is back-pressure.
	inboxDepth = 1024
	// burst is how many of them run before timers are looked at again.
	burst = 256
	// minSleep keeps a machine that is always due from spinning.
	minSleep = time.Millisecond
)

// machine is what a loop drives.
type machine interface {
	// deadline is when tick wants to be called.
	deadline() (delivery.Now, bool)
	tick()
	// paused tells of a pause of this process that was longer than heartbeat.
	paused(time.Duration)
	heartbeat() time.Duration
}

// loop runs closures one at a time on one goroutine and keeps a machine's timers.
type loop struct {
	clock clock.Clock
	start time.Time
	inbox chan func()
	done  chan struct{} // closed when the loop has ended
	last  delivery.Now
}

func newLoop(c clock.Clock) *loop {
	return &loop{clock: c, start: c.Now(), inbox: make(chan func(), inboxDepth), done: make(chan struct{})}
}

// now is monotonic: the clock's readings carry it.
func (l *loop) now() delivery.Now { return l.clock.Since(l.start) }

// post hands a closure to the loop; false means that the loop has ended and the closure will not run.
func (l *loop) post(f func()) bool { return l.postUnless(nil, f) }

// postUnless is post for a caller that gives up when stop is closed, which also returns false.
func (l *loop) postUnless(stop <-chan struct{}, f func()) bool {
	select {
	case <-l.done:
		return false
	default:
	}
	select {
	case l.inbox <- f:
		return true
	case <-l.done:
		return false
	case <-stop:
		return false
	}
}

// call runs f on the loop and waits for it.
func (l *loop) call(ctx context.Context, f func()) error {
	ran := make(chan struct{})
	job := func() {
		f()
		close(ran)
	}
	select {
	case l.inbox <- job:
	case <-l.done:
		return ErrUnavailable
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-ran:
		return nil
	case <-l.done:
		return ErrUnavailable
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run drives m until stop returns true; stop is asked after every wake-up, and ctx only wakes the loop.
func (l *loop) run(ctx context.Context, m machine, stop func() bool) {
	defer close(l.done)
	timer := l.clock.NewTimer(0)
	defer timer.Stop()
	l.last = l.now()
	ended := ctx.Done()
	for {
		select {
		case <-ended:
			ended = nil
			l.awake(m)
		case f := <-l.inbox:
			l.awake(m)
			f()
			l.drain()
		case <-timer.C():
			l.awake(m)
		}
		if ctx.Err() != nil && stop() {
			return
		}
		timer.Reset(l.sleep(m))
	}
}

// awake looks for a pause of the whole process before anything else is believed about time.
func (l *loop) awake(m machine) {
	now := l.now()
	if gap := now - l.last; gap > m.heartbeat() {
		m.paused(gap)
	}
	l.last = now
}

func (l *loop) drain() {
	for range burst {
		select {
		case f := <-l.inbox:
			f()
		default:
			return
		}
	}
}

// sleep runs what is due and returns how long there is nothing to do, at most half a heartbeat, so that a pause is noticed.
func (l *loop) sleep(m machine) time.Duration {
	longest := max(m.heartbeat()/2, minSleep)
	at, ok := m.deadline()
	if ok && at <= l.now() {
		m.tick()
		at, ok = m.deadline()
	}
	if !ok {
		return longest
	}
	return min(max(at-l.now(), minSleep), longest)
}
