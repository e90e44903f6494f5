package endpoint

import (
	"context"
	"errors"
	"testing"
	"time"
)

// What a handler sees of its context does not depend on when it looks first.
func TestAttemptEndsLikeAnyContext(t *testing.T) {
	gone := errors.New("gone")
	ends := map[string]struct {
		end   func(a *attempt, stopWorker context.CancelCauseFunc)
		cause error
	}{
		"abandoned":           {func(a *attempt, _ context.CancelCauseFunc) { a.end(ErrAbandoned) }, ErrAbandoned},
		"over":                {func(a *attempt, _ context.CancelCauseFunc) { a.end(nil) }, context.Canceled},
		"abandoned, and over": {func(a *attempt, _ context.CancelCauseFunc) { a.end(ErrAbandoned); a.end(nil) }, ErrAbandoned},
		"the worker ended":    {func(_ *attempt, stop context.CancelCauseFunc) { stop(gone) }, gone},
	}
	looks := map[string]func(context.Context){
		"asks late":        func(context.Context) {},
		"asks for the end": func(ctx context.Context) { ctx.Done() },
		"asks for a value": func(ctx context.Context) { ctx.Value("key") },
		"asks whether":     func(ctx context.Context) { _ = ctx.Err() },
	}
	for ending, e := range ends {
		for looking, look := range looks {
			t.Run(ending+"/"+looking, func(t *testing.T) {
				worker, stop := context.WithCancelCause(t.Context())
				defer stop(nil)
				a := &attempt{worker: worker}
				look(a)
				if err := a.Err(); err != nil {
					t.Fatal("it began ended:", err)
				}
				e.end(a, stop)
				if err := a.Err(); !errors.Is(err, context.Canceled) {
					t.Errorf("Err() = %v, want context.Canceled", err)
				}
				select {
				case <-a.Done():
				default:
					t.Error("Done is open")
				}
				if cause := context.Cause(a); !errors.Is(cause, e.cause) {
					t.Errorf("cause %v, want %v", cause, e.cause)
				}
			})
		}
	}
}

// A context made from the attempt's ends with it, also one that was there before the end, and none of them needs a goroutine.
func TestAttemptPassesItsEndOn(t *testing.T) {
	type key struct{}
	a := &attempt{worker: context.WithValue(t.Context(), key{}, "of the worker")}
	child, cancel := context.WithTimeout(a, time.Hour)
	defer cancel()
	if child.Value(key{}) != "of the worker" {
		t.Error("the values of the worker's context are lost")
	}
	a.end(ErrAbandoned)
	if child.Err() == nil || !errors.Is(context.Cause(child), ErrAbandoned) {
		t.Errorf("the child's end: %v, cause %v", child.Err(), context.Cause(child))
	}
}
