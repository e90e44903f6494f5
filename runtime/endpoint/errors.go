package endpoint

import (
	"errors"
	"fmt"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

var (
	// ErrUnavailable: the answer cannot be had now (loading, failed, stopping, queue down). What was submitted may or may not
	// be stored; repeating it under the same MessageID is safe.
	ErrUnavailable = errors.New("endpoint: unavailable")
	// ErrSuspended: the flow takes no new jobs.
	ErrSuspended = errors.New("endpoint: the flow is suspended")
	// ErrAbandoned is the cause of a handler's context that ended because the attempt ran past its timeout: its outcome does not count any
	// more, but its slot is taken until the handler returns. Any other cause means that the worker stops.
	ErrAbandoned = errors.New("endpoint: the attempt was abandoned")
	// ErrNotFound: no job is known under this id.
	ErrNotFound = errors.New("endpoint: not found")
)

// NoCreditError refuses a submission under back-pressure. Nothing was stored.
type NoCreditError struct {
	// RetryAfter is when to try again.
	RetryAfter time.Duration
}

func (e *NoCreditError) Error() string {
	return fmt.Sprintf("endpoint: no credit, retry after %s", e.RetryAfter)
}

// QueueFullError refuses a submission that the queue has no room for. Nothing was stored, and what was stored before goes on.
type QueueFullError struct {
	// Reason is what the queue says, for people.
	Reason string
	// RetryAfter is when to try again.
	RetryAfter time.Duration
}

func (e *QueueFullError) Error() string { return "endpoint: " + e.Reason }

// Unwrap says that it is ErrUnavailable too.
func (e *QueueFullError) Unwrap() error { return ErrUnavailable }

// RefusedError is a submission that the controller refused for good. Nothing was stored.
type RefusedError struct {
	Code   protocol.RefusalCode
	Reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("endpoint: refused (%s): %s", e.Code, e.Reason)
}
