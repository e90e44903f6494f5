package endpoint

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/workpulling/workpulling/runtime/delivery"
)

const (
	// inboxDepth is how many closures may wait for the machine; beyond that streams and callers wait, which is back-pressure.
	inboxDepth = 1024
	// burst is how many of them run before the goroutine that drives looks after its own affairs.
	burst = 64
	// minSleep keeps a machine that is always due from spinning.
	minSleep = time.Millisecond
)

// machine is what a loop drives.
type machine interface {
	// deadline is when tick wants to be called.
	deadline() (delivery.Now, bool)
	tick()
	// rest is called when nothing is queued, for what is better done for many events at once.
	rest()
	// paused tells of a pause of this process that was longer than heartbeat.
	paused(time.Duration)
	heartbeat() time.Duration
}

// loop runs closures one at a time and keeps a machine's timers. Who brings a closure to a machine that nobody drives may drive it
// itself: that saves the hand-over to another goroutine, which costs more than most steps do. Order holds all the same, for everything goes
// through one queue.
type loop struct {
	clock clock.Clock
	start time.Time
	done  chan struct{} // closed when the loop has ended
	wake  chan struct{} // holds a token while the loop has to look at the queue

	// Owned by whoever drives.
	last delivery.Now
	m    machine

	mu      sync.Mutex // guards all below
	queue   []func()
	spare   []func()
	driven  bool // somebody drives the machine, and runs what is queued; true before run and after its end, when nobody may
	ended   bool
	stops   bool          // the loop is about to end: it drives alone
	room    chan struct{} // closed when there is room in the queue; nil while nobody waits for it
	timer   clock.Timer
	ringsAt delivery.Now // when timer fires, 0 if it is not armed
}

func newLoop(c clock.Clock) *loop {
	return &loop{clock: c, start: c.Now(), done: make(chan struct{}), wake: make(chan struct{}, 1), driven: true}
}

// now is monotonic: the clock's readings carry it.
func (l *loop) now() delivery.Now { return l.clock.Since(l.start) }

// post hands a closure to the loop; false means that the loop has ended and the closure will not run.
func (l *loop) post(f func()) bool { return l.put(nil, f, false) }

// do is post for a goroutine that may as well run the closure itself: one that would wait for it, or for the next message of a stream.
// It must hold no lock that the machine's actions take.
func (l *loop) do(f func()) bool { return l.put(nil, f, true) }

// doUnless is do for a caller that gives up when stop is closed, which also returns false.
func (l *loop) doUnless(stop <-chan struct{}, f func()) bool { return l.put(stop, f, true) }

func (l *loop) put(stop <-chan struct{}, f func(), here bool) bool {
	l.mu.Lock()
	for !l.ended && len(l.queue) >= inboxDepth {
		if l.room == nil {
			l.room = make(chan struct{})
		}
		room := l.room
		l.mu.Unlock()
		select {
		case <-room:
		case <-l.done:
		case <-stop:
			return false
		}
		l.mu.Lock()
	}
	if l.ended {
		l.mu.Unlock()
		return false
	}
	l.queue = append(l.queue, f)
	switch {
	case l.driven: // who drives runs it
	case here && !l.stops:
		l.driven = true
		l.mu.Unlock()
		l.drive()
		return true
	default:
		l.rouse()
	}
	l.mu.Unlock()
	return true
}

// rouse makes the loop look at the queue.
func (l *loop) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// call runs f on the loop and waits for it.
func (l *loop) call(ctx context.Context, f func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ran := make(chan struct{})
	if !l.doUnless(ctx.Done(), func() { f(); close(ran) }) {
		if err := ctx.Err(); err != nil {
			return err
		}
		return ErrUnavailable
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
	l.begin(m)
	defer l.timer.Stop()
	l.drive()
	ended := ctx.Done()
	for {
		select {
		case <-ended:
			ended = nil
			l.endSoon()
		case <-l.wake:
		case <-l.timer.C():
			l.rang()
		}
		if !l.claim() {
			continue // who drives sees to the timer, and wakes a loop that is about to end
		}
		l.drive()
		if ctx.Err() != nil && l.finish(stop) {
			return
		}
	}
}

func (l *loop) begin(m machine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.m, l.last, l.timer = m, l.now(), l.clock.NewTimer(0)
}

func (l *loop) endSoon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stops = true
}

func (l *loop) rang() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ringsAt = 0
}

// claim makes the caller the one who drives, if there is none.
func (l *loop) claim() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.driven {
		return false
	}
	l.driven = true
	return true
}

// finish asks stop; after true nobody drives any more.
func (l *loop) finish(stop func() bool) bool {
	if !l.claim() {
		return false
	}
	if !stop() {
		l.drive()
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	return true
}

// drive runs what is queued and due, and lets go of the machine. What is queued after a burst it leaves to the loop.
func (l *loop) drive() {
	defer l.crash()
	for ran := 0; ran < burst; {
		l.awake()
		taken := l.take()
		for i, f := range taken {
			f()
			taken[i] = nil
		}
		ran += len(taken)
		l.m.rest()
		if l.release(l.sleep()) {
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.driven = false
	l.rouse()
}

// crash ends the process if the machine panicked in the hands of a caller who would recover, such as an HTTP server does: a machine that
// stopped halfway through a step must not go on.
func (l *loop) crash() {
	if cause := recover(); cause != nil {
		go panic(fmt.Sprintf("%v\n%s", cause, debug.Stack()))
		select {}
	}
}

// take empties the queue. What it returns is the driver's until the next take.
func (l *loop) take() []func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.queue
	l.queue, l.spare = l.spare[:0], taken
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
	return taken
}

// release lets go of the machine, unless something was queued meanwhile. The timer is moved only if it would ring too late: one that rings
// too early costs a look, once, where moving it costs something at every event.
func (l *loop) release(sleep time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) > 0 {
		return false
	}
	if at := l.last + sleep; l.ringsAt == 0 || at < l.ringsAt {
		l.ringsAt = at
		l.timer.Reset(sleep)
	}
	l.driven = false
	if l.stops {
		l.rouse()
	}
	return true
}

// awake looks at the clock, and for a pause of the whole process before anything else is believed about time.
func (l *loop) awake() {
	now := l.now()
	gap := now - l.last
	l.last = now
	if gap > l.m.heartbeat() {
		l.m.paused(gap)
	}
}

// sleep runs what is due and returns how long there is nothing to do, at most half a heartbeat, so that a pause is noticed.
func (l *loop) sleep() time.Duration {
	longest := max(l.m.heartbeat()/2, minSleep)
	at, ok := l.m.deadline()
	if ok && at <= l.last {
		l.m.tick()
		l.m.rest()
		at, ok = l.m.deadline()
	}
	if !ok {
		return longest
	}
	return min(max(at-l.last, minSleep), longest)
}
