package poll

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestUntil(t *testing.T) {
	calls := 0
	err := Until(t.Context(), time.Minute, "it", func(context.Context) error {
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if err != nil || calls != 3 {
		t.Errorf("%d calls, %v", calls, err)
	}
	reason := errors.New("the reason")
	if err := Until(t.Context(), time.Millisecond, "it", func(context.Context) error { return reason }); !errors.Is(err, reason) {
		t.Errorf("a time-out: %v", err)
	}
	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("somebody stopped it"))
	err = Until(ended, time.Minute, "it", func(context.Context) error { return reason })
	if err == nil || !strings.Contains(err.Error(), "somebody stopped it") || !strings.Contains(err.Error(), "the reason") {
		t.Errorf("stopped: %v", err)
	}
}
