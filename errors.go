package workpulling

import (
	"errors"
	"fmt"
	"time"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
)

var (
	// ErrUnavailable: the answer cannot be had now, because the flow is loading, out of reach or stopping, or its queue is down. The job may
	// or may not be stored; submitting it again under the same ID is safe.
	ErrUnavailable = errors.New("workpulling: unavailable")
	// ErrSuspended: the flow takes no new jobs. Nothing was stored.
	ErrSuspended = errors.New("workpulling: the flow takes no new jobs")
	// ErrQueueFull: the queue has no room, because its volume or its database is full or read-only. Nothing was stored; what was stored before
	// goes on. It comes with ErrUnavailable, for whom submitting again is all that counts.
	ErrQueueFull = errors.New("workpulling: the queue is full")
	// ErrConflict: another job is stored under this ID. Nothing was stored, and a repeat cannot help.
	ErrConflict = errors.New("workpulling: another job has this ID")
	// ErrInvalid: the job breaks a limit. Nothing was stored, and a repeat cannot help.
	ErrInvalid = errors.New("workpulling: invalid job")
	// ErrUnknown: no job is known under this ID, or it was settled so long ago that it is forgotten.
	ErrUnknown = errors.New("workpulling: unknown job")
	// ErrNotDrained: a worker ended before its drain was over. The flow runs what was left once more.
	ErrNotDrained = errors.New("workpulling: ended before the drain was over")
	// ErrNoIdentity: a connection to another process needs an Identity, and there is none.
	ErrNoIdentity = errors.New("workpulling: no identity: outside of Kubernetes use SharedSecret")
)

// BackPressureError says that the flow has no room for another job now. Nothing was stored.
type BackPressureError struct {
	// RetryAfter is when to try again.
	RetryAfter time.Duration
}

func (e *BackPressureError) Error() string {
	return fmt.Sprintf("workpulling: the flow is full, retry after %s", e.RetryAfter)
}

// DeadLetterError says that a job ended among the dead letters: it was rejected, had all its attempts, or was dropped by a person.
type DeadLetterError struct {
	// Reason is that of the last attempt, for people.
	Reason string
}

func (e *DeadLetterError) Error() string { return "workpulling: the job is a dead letter: " + e.Reason }

// FailedError is the end of a producer whose queue no repeat can heal: another producer has taken the queue, or its data are damaged or
// newer than this program.
type FailedError struct {
	// Stage is what failed: Load, Store, Accept, Confirm or Protocol.
	Stage string
	Cause error
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("workpulling: reliable delivery failed at stage %s: %v", e.Stage, e.Cause)
}

// Unwrap returns the cause.
func (e *FailedError) Unwrap() error { return e.Cause }

// translated is an error of the endpoint in the words of this package.
func translated(err error) error {
	var full *endpoint.NoCreditError
	var refused *endpoint.RefusedError
	var noRoom *endpoint.QueueFullError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &full):
		return &BackPressureError{RetryAfter: full.RetryAfter}
	case errors.As(err, &noRoom):
		return fmt.Errorf("%w: %w: %s", ErrUnavailable, ErrQueueFull, noRoom.Reason)
	case errors.As(err, &refused) && refused.Code == protocol.RefusedInvalid:
		return fmt.Errorf("%w: %s", ErrInvalid, refused.Reason)
	case errors.Is(err, protocol.ErrInvalid):
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	case errors.Is(err, endpoint.ErrSuspended):
		return ErrSuspended
	case errors.Is(err, endpoint.ErrNotFound):
		return ErrUnknown
	case errors.Is(err, endpoint.ErrUnavailable):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	default:
		return err
	}
}
