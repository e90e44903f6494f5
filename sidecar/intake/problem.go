package intake

import (
	"encoding/json"
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
	// ID and Sequence name the job where there is one.
	ID       string `json:"id,omitempty"`
	Sequence int64  `json:"sequence,omitempty"`

	retryAfter time.Duration
}

func (p problem) Error() string { return p.Title + ": " + p.Detail }

func newProblem(status int, slug, title, detail string) problem {
	return problem{Type: "https://workpulling.dev/problems/" + slug, Title: title, Status: status, Detail: detail}
}

func (p problem) after(d time.Duration) problem {
	p.retryAfter = d
	return p
}

func (p problem) about(id string, seq int64) problem {
	p.ID, p.Sequence = id, seq
	return p
}

func (p problem) write(w http.ResponseWriter) {
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retryAfter.Seconds()))))
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="workpulling.dev"`)
	}
	writeJSON(w, p.Status, "application/problem+json", p)
}

func writeJSON(w http.ResponseWriter, status int, contentType string, body any) {
	raw, err := json.Marshal(body)
	if err != nil { // impossible for the plain structs of this package
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n'))
}

var (
	problemBusy = newProblem(http.StatusTooManyRequests, "no-credit", "The flow takes no more jobs right now",
		"The backlog is full, or nobody has demand. Nothing was stored: repeat the request after the time in Retry-After.")
	problemSuspended = newProblem(http.StatusServiceUnavailable, "suspended", "The flow takes no new jobs",
		"It is suspended, being deleted, or failed. Nothing was stored: try again when it is open.").after(30 * time.Second)
	problemUnavailable = newProblem(http.StatusServiceUnavailable, "unavailable", "The outcome is not known",
		"The queue did not answer in time. The job may or may not be stored: repeat the request with the same id, which is safe.").after(2 * time.Second)
	problemMismatch = newProblem(http.StatusUnprocessableEntity, "id-reused", "The id is known with another body",
		"The first body stands and nothing was stored. Use a new id for a new job.")
	problemEncoded = newProblem(http.StatusUnsupportedMediaType, "encoded", "The body is compressed",
		"Send it without Content-Encoding, or say in Content-Type what it is and leave the unpacking to your handler.")
	problemNotFound = newProblem(http.StatusNotFound, "not-found", "No such job",
		"It was never stored under this id, or it was settled longer ago than the flow's deduplication window.")
)

// problemOf translates an error of this package or of the endpoint.
func problemOf(err error) problem {
	if p, ok := errors.AsType[problem](err); ok {
		return p
	}
	if refusal, ok := errors.AsType[*transport.Refusal](err); ok {
		return problemOfRefusal(refusal)
	}
	if busy, ok := errors.AsType[*endpoint.NoCreditError](err); ok {
		return problemBusy.after(busy.RetryAfter)
	}
	if refused, ok := errors.AsType[*endpoint.RefusedError](err); ok && refused.Code != protocol.RefusedInvalid {
		return newProblem(http.StatusServiceUnavailable, "refused", "The flow refused the job", string(refused.Code)+": "+refused.Reason)
	} else if ok {
		return newProblem(http.StatusBadRequest, "invalid", "The job breaks a limit", refused.Reason)
	}
	switch {
	case errors.Is(err, protocol.ErrInvalid):
		return newProblem(http.StatusBadRequest, "invalid", "The job cannot be taken", err.Error())
	case errors.Is(err, endpoint.ErrSuspended):
		return problemSuspended
	case errors.Is(err, endpoint.ErrNotFound):
		return problemNotFound
	}
	return problemUnavailable
}

func problemOfRefusal(r *transport.Refusal) problem {
	switch r.Label {
	case transport.LabelUnavailable, transport.LabelCoolingDown:
		return newProblem(http.StatusServiceUnavailable, string(r.Label), "The caller cannot be checked now", r.Reason).after(max(r.RetryAfter, time.Second))
	case transport.LabelForbidden, transport.LabelServiceAccount:
		return newProblem(http.StatusForbidden, string(r.Label), "The caller may not do this", r.Reason)
	default:
		return newProblem(http.StatusUnauthorized, string(r.Label), "The token is not accepted", r.Reason)
	}
}
