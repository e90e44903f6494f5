package intake

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// problem is an error answer (RFC 9457) that says what to do.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Instance is the path of the job that the problem is about, or the name under which the log tells more.
	Instance string `json:"instance,omitempty"`
	// ID and Sequence name the job where there is one.
	ID       string `json:"id,omitempty"`
	Sequence int64  `json:"sequence,omitempty"`
	// RetryAfter is the header of that name, for answers about one job of many.
	RetryAfter int `json:"retryAfterSeconds,omitempty"`
}

func (p problem) Error() string { return p.Title + ": " + p.Detail }

// after says when to try again; a part of a second counts as one.
func (p problem) after(d time.Duration) problem {
	p.RetryAfter = int(math.Ceil(d.Seconds()))
	return p
}

func (p problem) about(id string, seq int64) problem {
	p.ID, p.Sequence = id, seq
	return p
}

func (p problem) write(w http.ResponseWriter) {
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="workpulling.dev"`)
	}
	writeJSON(w, p.Status, typeProblem, p)
}

func writeJSON(w http.ResponseWriter, status int, contentType string, body any) {
	writeRaw(w, status, contentType, marshal(body))
}

// writeRaw answers with JSON, a line of it.
func writeRaw(w http.ResponseWriter, status int, contentType string, raw []byte) {
	raw = append(raw, '\n')
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}

// problemOf translates an error of this package or of the endpoint.
func problemOf(err error) problem {
	if p, ok := errors.AsType[problem](err); ok {
		return p
	}
	if refusal, ok := errors.AsType[*transport.Refusal](err); ok {
		return problemOfRefusal(refusal)
	}
	if busy, ok := errors.AsType[*endpoint.NoCreditError](err); ok {
		return kindNoCredit.problem().after(busy.RetryAfter)
	}
	if full, ok := errors.AsType[*endpoint.QueueFullError](err); ok {
		return kindQueueFull.problem().after(full.RetryAfter)
	}
	if refused, ok := errors.AsType[*endpoint.RefusedError](err); ok && refused.Code != protocol.RefusedInvalid {
		return kindRefused.because(string(refused.Code) + ": " + refused.Reason)
	} else if ok {
		return kindInvalid.because(refused.Reason)
	}
	switch {
	case errors.Is(err, protocol.ErrInvalid):
		return kindInvalid.because(err.Error())
	case errors.Is(err, endpoint.ErrSuspended):
		return kindSuspended.problem().after(suspendedPause)
	case errors.Is(err, endpoint.ErrNotFound):
		return kindNotFound.problem()
	}
	return kindUnavailable.problem().after(unavailablePause)
}

// When to try again what is not a matter of room.
const (
	suspendedPause   = 30 * time.Second
	unavailablePause = 2 * time.Second
)

func problemOfRefusal(r *transport.Refusal) problem {
	kind, ok := refusals[r.Label]
	switch {
	case !ok:
		return kindTokenInvalid.because(r.Reason)
	case kind.Status == http.StatusServiceUnavailable:
		return kind.because(r.Reason).after(max(r.RetryAfter, time.Second))
	default:
		return kind.because(r.Reason)
	}
}
