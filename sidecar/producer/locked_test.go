package producer

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/workpulling/workpulling/runtime/queue/local"
)

// A lock is logged when it is met, once a minute while it lasts, and when it is over.
func TestALockIsToldOnceAMinute(t *testing.T) {
	now, lines := time.Unix(0, 0), 0
	l := lockedOut{log: funcr.New(func(string, string) { lines++ }, funcr.Options{}), now: func() time.Time { return now }}
	locked := fmt.Errorf("opening: %w", local.ErrLocked)
	for i, step := range []struct {
		after time.Duration
		err   error
		holds bool
		lines int
	}{
		{0, nil, false, 0},
		{0, errors.New("no such device"), false, 0},
		{0, locked, true, 1},
		{10 * time.Second, locked, true, 1},
		{49 * time.Second, locked, true, 1},
		{time.Second, locked, true, 2},
		{59 * time.Second, locked, true, 2},
		{time.Second, locked, true, 3},
		{time.Second, nil, false, 4},
		{time.Second, nil, false, 4},
		{time.Second, locked, true, 5},
	} {
		now = now.Add(step.after)
		l.opened(step.err)
		if l.holds() != step.holds || lines != step.lines {
			t.Errorf("step %d: holds %v after %d lines, want %v after %d", i, l.holds(), lines, step.holds, step.lines)
		}
	}
}
