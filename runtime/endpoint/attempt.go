package endpoint

import (
	"context"
	"sync"
	"time"
)

// attempt is the context of one invocation of a handler. It costs a map entry, a lock that all handlers share and some memory to be told of the
// end of a context, and many handlers never ask: the real one is made for the first who does.
type attempt struct {
	worker context.Context //nolint:containedctx // what the real one comes from

	mu    sync.Mutex
	real  context.Context //nolint:containedctx // nil until somebody asks
	stop  context.CancelCauseFunc
	ended bool
	cause error
}

// Deadline implements context.Context.
func (a *attempt) Deadline() (time.Time, bool) { return a.worker.Deadline() }

// Done implements context.Context.
func (a *attempt) Done() <-chan struct{} { return a.asked().Done() }

// Value implements context.Context. It is also how context finds the real one, and with it the cause.
func (a *attempt) Value(key any) any { return a.asked().Value(key) }

// Err implements context.Context.
func (a *attempt) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.real != nil:
		return a.real.Err()
	case a.ended:
		return context.Canceled
	}
	return a.worker.Err()
}

func (a *attempt) asked() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.real == nil {
		a.real, a.stop = context.WithCancelCause(a.worker)
		if a.ended {
			a.stop(a.cause)
		}
	}
	return a.real
}

// end ends the context; the first cause stands, and nil is context.Canceled.
func (a *attempt) end(cause error) {
	a.mu.Lock()
	if !a.ended {
		a.ended, a.cause = true, cause
	}
	stop := a.stop
	a.mu.Unlock()
	if stop != nil {
		stop(cause)
	}
}
