package queuetest

import (
	"sync"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/queue"
)

// Backend is one implementation under test.
type Backend struct {
	// New makes an empty place for one test. The place's resources end with t.
	New func(t testing.TB, options Options) Place
	// Volatile says that Close forgets everything. Where the suite reopens a durable queue, it then loads the same one again.
	Volatile bool
}

// Options is what a test wants of its queue.
type Options struct {
	DeduplicationWindow time.Duration
	Clock               func() time.Time
}

// Place is storage that outlives the queues opened in it.
type Place struct {
	// Open opens the queue of a flow, new or as it was closed. Different flows are independent. Required.
	Open func(flow string) (queue.WorkQueue, error)
	// Damage spoils the stored state of a flow whose queue is closed and holds the jobs d-1…d-3 with sequences 1…3, all unsettled;
	// false if the storage cannot be damaged in that way. Nil if it cannot be damaged at all.
	Damage func(flow string, damage Damage) bool
	// Hang makes every later commit of the queue hang until release is called. Optional.
	Hang func(q queue.WorkQueue) (release func())
}

// Damage is one way in which stored state may contradict itself (B-054).
type Damage string

// The ways of B-054. A store whose keys make one impossible says so.
const (
	DuplicateID         Damage = "two rows with one id"
	SequenceZero        Damage = "a row with sequence 0"
	SequenceAboveCursor Damage = "a row above the cursor"
	EmptyPayload        Damage = "a row without payload"
	FlippedBit          Damage = "a row with one bit flipped"
	MissingRow          Damage = "an id whose row is gone"
)

var damages = []Damage{DuplicateID, SequenceZero, SequenceAboveCursor, EmptyPayload, FlippedBit, MissingRow}

// Clock is a wall clock that moves only when told.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock starts at a fixed moment.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)} }

// Now is the current reading.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Run runs the whole suite.
func Run(t *testing.T, b Backend) {
	for _, group := range []struct {
		name  string
		tests []scenario
	}{
		{"Ownership", ownership},
		{"Store", stores},
		{"Settle", settlements},
		{"Attempts", attempts},
		{"DeadLetters", deadLetters},
		{"Window", windows},
		{"Orphans", orphans},
		{"Load", loads},
		{"Isolation", isolations},
		{"Identity", identities},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, s := range group.tests {
				t.Run(s.name, func(t *testing.T) { s.run(newFixture(t, t, b)) })
			}
		})
	}
	t.Run("Model", func(t *testing.T) { testModel(t, b) })
}

type scenario struct {
	name string
	run  func(*fixture)
}
