package endpoint

import (
	"context"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/workpulling/workpulling/runtime/delivery"
)

// idleMachine has nothing to do by itself.
type idleMachine struct{ rests int }

func (*idleMachine) deadline() (delivery.Now, bool) { return 0, false }
func (*idleMachine) tick()                          {}
func (m *idleMachine) rest()                        { m.rests++ }
func (*idleMachine) paused(time.Duration)           {}
func (*idleMachine) heartbeat() time.Duration       { return time.Second }

func startLoop(t *testing.T) (l *loop, m *idleMachine, stop func()) {
	t.Helper()
	l, m = newLoop(clock.RealClock{}), &idleMachine{}
	ctx, cancel := context.WithCancel(t.Context())
	go l.run(ctx, m, func() bool { return true })
	stop = func() {
		cancel()
		<-l.done
	}
	t.Cleanup(stop)
	return l, m, stop
}

// Whoever runs a closure, no two run at a time, and those of one goroutine run in its order.
func TestLoopKeepsOrderWhoeverDrives(t *testing.T) {
	l, _, _ := startLoop(t)
	const callers, each = 8, 5000
	var seen [callers]int
	busy, wrong := false, 0
	var calling sync.WaitGroup
	for caller := range callers {
		calling.Go(func() {
			for i := range each {
				f := func() {
					if busy || seen[caller] != i {
						wrong++
					}
					busy = true
					seen[caller]++
					busy = false
				}
				put := l.post
				if (i/7+caller)%2 == 0 {
					put = l.do
				}
				if !put(f) {
					t.Error("the loop has ended")
				}
			}
		})
	}
	calling.Wait()
	if err := l.call(t.Context(), func() {}); err != nil {
		t.Fatal(err)
	}
	for caller, n := range seen {
		if n != each {
			t.Errorf("%d closures of caller %d ran, want %d", n, caller, each)
		}
	}
	if wrong > 0 {
		t.Errorf("%d closures ran beside or before another", wrong)
	}
}

func TestLoopRestsAfterAClosureThatItsCallerRan(t *testing.T) {
	l, m, _ := startLoop(t)
	if err := l.call(t.Context(), func() { m.rests = 0 }); err != nil {
		t.Fatal(err)
	}
	ran, rests := false, 0
	l.do(func() { ran = true })
	if err := l.call(t.Context(), func() { rests = m.rests }); err != nil {
		t.Fatal(err)
	}
	if !ran || rests == 0 {
		t.Errorf("ran: %v, rests: %d, want it run and a rest after it", ran, rests)
	}
}

// restless has one thing to do by itself, which leaves something for the next rest.
type restless struct {
	idleMachine
	ticked bool
	rested chan struct{}
}

func (m *restless) deadline() (delivery.Now, bool) { return 0, !m.ticked }
func (m *restless) tick()                          { m.ticked = true }
func (m *restless) heartbeat() time.Duration       { return time.Hour }
func (m *restless) rest() {
	if m.ticked && m.rested != nil {
		close(m.rested)
		m.rested = nil
	}
}

// What a tick leaves for the next rest does not wait for an event, or for the next look at the clock.
func TestLoopRestsAfterATick(t *testing.T) {
	rested := make(chan struct{})
	l := newLoop(clock.RealClock{})
	ctx, cancel := context.WithCancel(t.Context())
	go l.run(ctx, &restless{rested: rested}, func() bool { return true })
	t.Cleanup(func() {
		cancel()
		<-l.done
	})
	select {
	case <-rested:
	case <-time.After(10 * time.Second):
		t.Error("the loop let go of the machine without a rest after its tick")
	}
}

func TestLoopMakesCallersWaitWhileTooMuchIsQueued(t *testing.T) {
	l, _, _ := startLoop(t)
	driving, goOn := make(chan struct{}), make(chan struct{})
	go l.do(func() { close(driving); <-goOn })
	<-driving
	for range inboxDepth {
		l.post(func() {})
	}
	stop := make(chan struct{})
	close(stop)
	if l.doUnless(stop, func() { t.Error("a closure whose caller gave up has run") }) {
		t.Error("a closure found room in a full queue")
	}
	waited := make(chan bool)
	go func() { waited <- l.post(func() {}) }()
	close(goOn)
	if !<-waited {
		t.Error("the closure that waited for room was refused")
	}
}

func TestLoopTakesNothingAfterItsEnd(t *testing.T) {
	l, _, stop := startLoop(t)
	stop()
	if l.post(func() {}) || l.do(func() {}) {
		t.Error("a loop that has ended took a closure")
	}
	if err := l.call(t.Context(), func() {}); err == nil {
		t.Error("a call of a loop that has ended succeeded")
	}
}
