package producer

import (
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling/runtime/queue/local"
)

// lockedOut knows whether another process keeps this one out of the volume: the lock of a Local queue is its fence, and whoever waits
// behind it says so. It is over by itself when the other process ends.
type lockedOut struct {
	log logr.Logger
	now func() time.Time

	mu          sync.Mutex
	since, told time.Time // zero while nobody keeps this process out
}

// lockTold is how often the log is told of a lock that lasts.
const lockTold = time.Minute

// opened takes in what came of an attempt to open the volume.
func (l *lockedOut) opened(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if !errors.Is(err, local.ErrLocked) {
		if !l.since.IsZero() {
			l.log.Info("No other process holds the volume of the queue any more", "waited", now.Sub(l.since).Round(time.Second).String())
		}
		l.since, l.told = time.Time{}, time.Time{}
		return
	}
	if l.since.IsZero() {
		l.since = now
	}
	if l.told.IsZero() || now.Sub(l.told) >= lockTold {
		l.told = now
		l.log.Info("Another process holds the volume of the queue; this one waits until it ends", "cause", err.Error(),
			"waiting", now.Sub(l.since).Round(time.Second).String())
	}
}

// holds says whether another process keeps this one out.
func (l *lockedOut) holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.since.IsZero()
}
