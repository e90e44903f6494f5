package handler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
)

const (
	// HeaderOutcome lets the app say "reject" with any status: the job goes to the dead letters at once.
	HeaderOutcome = "Workpulling-Outcome"
	// HeaderReason lets the app give a short reason that a person will read with the dead letter. It must hold no payload.
	HeaderReason = "Workpulling-Reason"
	// HeaderMessageID, HeaderAttempt, HeaderStoreSequence and HeaderRedelivered tell the app what the CloudEvents attributes have
	// no standard name for. MessageID is the deduplication key. As every attribute, they are percent-encoded where they are not plain ASCII.
	HeaderMessageID     = "Ce-Workpullingmessageid"
	HeaderAttempt       = "Ce-Workpullingattempt"
	HeaderStoreSequence = "Ce-Workpullingsequence"
	HeaderRedelivered   = "Ce-Workpullingredelivered"

	// OutcomeReject is the value of HeaderOutcome that is understood.
	OutcomeReject = "reject"

	// maxDelay clamps Retry-After: an app cannot park a job for longer.
	maxDelay = time.Hour
)

// Target says where the app listens.
type Target struct {
	// Host is 127.0.0.1 where it is empty.
	Host string
	Port int32
	Path string
}

// URL is where deliveries are posted: always on loopback, for the app shares the pod.
func (t Target) URL() string {
	return "http://" + t.Address() + "/" + strings.TrimPrefix(t.Path, "/")
}

// Address is the app's host and port.
func (t Target) Address() string {
	return net.JoinHostPort(cmp.Or(t.Host, "127.0.0.1"), strconv.Itoa(int(t.Port)))
}

// HTTP posts deliveries to the app. It implements endpoint.Handler.
type HTTP struct {
	connections *connections
	target      func() Target
	address     *atomic.Pointer[address] // of the target that was met last
	// unreachable is told about a failed dial, so that demand stops before the next probe.
	unreachable func()
	source      string
	// lifetime ends running requests when the sidecar stops for good.
	lifetime context.Context
}

// New returns a handler that posts to whatever target says at that moment. source is the ce-source of jobs that came without one.
// Requests outlive the context of their attempt and end with lifetime. unreachable may be nil.
func New(lifetime context.Context, source string, target func() Target, unreachable func()) *HTTP {
	if unreachable == nil {
		unreachable = func() {}
	}
	return &HTTP{
		connections: newConnections(lifetime),
		target:      target,
		address:     new(atomic.Pointer[address]),
		unreachable: unreachable,
		source:      source,
		lifetime:    lifetime,
	}
}

// From returns a handler like h, with the connections of h, for jobs of another source.
func (h *HTTP) From(source string) *HTTP {
	other := *h
	other.source = source
	return &other
}

// Handle posts one delivery and maps the answer to its outcome. ctx ends when the attempt is abandoned; the request goes on.
func (h *HTTP) Handle(_ context.Context, d protocol.Delivery) endpoint.Result {
	to, err := h.where()
	if err != nil {
		return endpoint.Result{Outcome: protocol.Nacked, Reason: "the handler's address is not valid"}
	}
	for {
		c, used, err := h.connections.take(to)
		if err != nil {
			h.unreachable()
			return endpoint.Result{Outcome: protocol.HandedBack, Reason: "the app does not listen on " + to.dial}
		}
		result, reusable, err := c.exchange(&d, h.source)
		if reusable {
			h.connections.put(c)
		} else {
			c.Close()
		}
		switch {
		case err == nil:
			return result
		case used && errors.Is(err, errUnwritten):
			continue // the app never saw it
		case h.lifetime.Err() != nil:
			return endpoint.Result{Outcome: protocol.Nacked, Reason: reasonStopped}
		}
		return endpoint.Result{Outcome: protocol.Nacked, Reason: "the connection to the handler broke"}
	}
}

// where is the address to post to.
func (h *HTTP) where() (*address, error) {
	target := h.target()
	if known := h.address.Load(); known != nil && known.target == target {
		return known, nil
	}
	to, err := newAddress(target)
	if err == nil {
		h.address.Store(to)
	}
	return to, err
}

// forwarded lets the attributes of the event, content type and trace context through; nothing else reaches the app, whichever way.
// In particular Idempotency-Key must not: Go's transport replays requests that bear it.
func forwarded(key string) bool {
	switch key {
	case protocol.HeaderContentType, protocol.HeaderTraceParent, protocol.HeaderTraceState:
		return true
	}
	return strings.HasPrefix(key, protocol.HeaderCloudEvent)
}

// clampDelay bounds how long an app may put a job off, whichever way it says so.
func clampDelay(wait time.Duration) time.Duration { return min(max(wait, time.Second), maxDelay) }

func outcome(answer *http.Response) endpoint.Result {
	said := answer.Header.Get(HeaderOutcome)
	if said == "" && answer.StatusCode >= 200 && answer.StatusCode < 300 {
		return endpoint.Result{Outcome: protocol.Confirmed}
	}
	reason := answer.Header.Get(HeaderReason)
	if reason == "" {
		reason = fmt.Sprintf("the handler answered %d", answer.StatusCode)
	}
	reason = protocol.ClipReason(reason)
	switch status := answer.StatusCode; {
	case status == http.StatusUnprocessableEntity || strings.EqualFold(said, OutcomeReject):
		return endpoint.Result{Outcome: protocol.Rejected, Reason: reason}
	case said != "":
		return endpoint.Result{Outcome: protocol.Nacked, Reason: "the handler's " + HeaderOutcome + " is not understood"}
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		if wait, ok := retryAfter(answer.Header); ok {
			return endpoint.Result{Outcome: protocol.Delayed, Reason: reason, RetryAfter: wait}
		}
	}
	return endpoint.Result{Outcome: protocol.Nacked, Reason: reason}
}

// retryAfter understands both forms of the header.
func retryAfter(header http.Header) (time.Duration, bool) {
	text := header.Get("Retry-After")
	var wait time.Duration
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		// The app's own Date header makes this a difference on one clock.
		sent, err := http.ParseTime(header.Get("Date"))
		if err != nil {
			return 0, false
		}
		wait = at.Sub(sent)
	} else {
		return 0, false
	}
	return clampDelay(wait), true
}
