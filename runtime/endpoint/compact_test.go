package endpoint

import (
	"testing"
	"time"
)

func TestCompactPause(t *testing.T) {
	for _, c := range []struct {
		removed     int
		took, every time.Duration
		want        time.Duration
	}{
		{0, time.Millisecond, time.Minute, time.Minute},
		{compactLimit - 1, time.Second, time.Minute, time.Minute},
		{compactLimit, 20 * time.Millisecond, time.Minute, 20 * time.Millisecond}, // 25,000 a second
		{compactLimit, time.Microsecond, time.Minute, time.Millisecond},
		{compactLimit, time.Minute, time.Second, time.Second},
	} {
		if got := compactPause(c.removed, c.took, c.every); got != c.want {
			t.Errorf("after %d in %s: %s, want %s", c.removed, c.took, got, c.want)
		}
	}
}
