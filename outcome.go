package workpulling

import (
	"errors"
	"time"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// Reject is the error of a handler for a job that no repeat can help: it goes to the dead letters at once. The text of err, without which
// it is "rejected", is what a person reads there, so that it must not hold a payload.
func Reject(err error) error { return &rejection{because(err, "rejected")} }

type rejection struct{ error }

func (r *rejection) Unwrap() error { return r.error }

// RetryAfter is the error of a handler that wants a job later, such as when a service that it calls is busy. It costs no attempt. The wait
// is at most an hour; zero leaves it to the flow's back-off. err, which may be nil, says why.
func RetryAfter(wait time.Duration, err error) error {
	return &delay{because(err, "asked for later"), min(max(wait, 0), protocol.MaxRetryAfter)}
}

type delay struct {
	error
	wait time.Duration
}

func (d *delay) Unwrap() error { return d.error }

func because(err error, otherwise string) error {
	if err == nil {
		return errors.New(otherwise)
	}
	return err
}

// resultOf is what the protocol says for a handler's error. Reject beats RetryAfter.
func resultOf(err error) endpoint.Result {
	if err == nil {
		return endpoint.Result{Outcome: protocol.Confirmed}
	}
	result := endpoint.Result{Outcome: protocol.Nacked, Reason: protocol.ClipReason(err.Error())}
	if _, ok := errors.AsType[*rejection](err); ok {
		result.Outcome = protocol.Rejected
	} else if later, ok := errors.AsType[*delay](err); ok {
		result.Outcome, result.RetryAfter = protocol.Delayed, later.wait
	}
	return result
}
