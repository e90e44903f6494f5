package local_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/local"
)

// A load whose commit fails leaves the earlier writer in place (B-042).
func TestLoadThatCannotCommit(t *testing.T) {
	q := open(t, t.TempDir())
	_, _, epoch := load(t, q)
	failure := errors.New("no space left")
	local.SetGate(q, func() error { return failure })
	if _, got, err := q.Load(t.Context(), "other", func(queue.Row) error { return nil }); !errors.Is(err, failure) || got != 0 {
		t.Fatalf("epoch %d, error %v, want that of the commit", got, err)
	}
	local.SetGate(q, nil)
	store(t, q, epoch, 0, "a")
}

// A load whose commit hangs ends at its deadline; whatever became of it, the next load gets a higher epoch (B-057).
func TestLoadThatHangs(t *testing.T) {
	q := open(t, t.TempDir())
	_, _, before := load(t, q)
	release := local.Hang(q)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := q.Load(ctx, "other", func(queue.Row) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v, want that of the context", err)
	}
	if jobs, err := q.ReadJobs(t.Context(), []int64{1}); err != nil || jobs[0].MessageID != "" {
		t.Errorf("reading beside a hanging commit: %v, error %v", jobs, err)
	}
	release()
	if _, _, epoch := load(t, q); epoch <= before {
		t.Errorf("epoch %d after %d", epoch, before)
	}
}
