package handler

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
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
	// maxAnswerBytes is read of an answer's body so that its connection can be used again; a longer body costs the connection.
	maxAnswerBytes = 64 << 10
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
	client *http.Client
	target func() Target
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
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	return &HTTP{
		client: &http.Client{
			Transport: &http.Transport{
				Proxy:               nil, // the app is on loopback whatever the environment says
				DialContext:         dialer.DialContext,
				MaxIdleConnsPerHost: 256,
				// Shorter than any server's keep-alive, so that a request never races the app closing an idle connection.
				IdleConnTimeout:    time.Second,
				DisableCompression: true,
			},
			// A redirect is not an answer: following it could run the job somewhere else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		target:      target,
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
	request, err := http.NewRequestWithContext(h.lifetime, http.MethodPost, h.target().URL(), bytes.NewReader(d.Job.Payload))
	if err != nil {
		return endpoint.Result{Outcome: protocol.Nacked, Reason: "the handler's address is not valid"}
	}
	setHeaders(request.Header, d, h.source)

	answer, err := h.client.Do(request)
	if err != nil {
		return h.failed(err)
	}
	defer answer.Body.Close()
	result := outcome(answer)
	if _, err := io.CopyN(io.Discard, answer.Body, maxAnswerBytes); err != nil && !errors.Is(err, io.EOF) {
		return endpoint.Result{Outcome: protocol.Nacked, Reason: "the handler's answer broke off"}
	}
	return result
}

func (h *HTTP) failed(err error) endpoint.Result {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		h.unreachable()
		return endpoint.Result{Outcome: protocol.HandedBack, Reason: "the app does not listen on " + h.target().Address()}
	}
	if h.lifetime.Err() != nil {
		return endpoint.Result{Outcome: protocol.Nacked, Reason: "the sidecar stopped while the handler was running"}
	}
	return endpoint.Result{Outcome: protocol.Nacked, Reason: "the connection to the handler broke"}
}

// setHeaders writes the CloudEvent in binary mode. The submitter's attributes win; what is missing gets a truthful default.
func setHeaders(header http.Header, d protocol.Delivery, source string) {
	header.Set("Ce-Specversion", "1.0")
	header.Set("Ce-Id", Attribute(d.Job.MessageID))
	header.Set("Ce-Source", Attribute(source))
	header.Set("Ce-Type", "dev.workpulling.job")
	header.Set("Content-Type", "application/octet-stream")
	for key, value := range d.Job.Headers {
		switch {
		case strings.HasPrefix(key, protocol.HeaderCloudEvent):
			header.Set(key, Attribute(value))
		case forwarded(key):
			header.Set(key, value)
		}
	}
	header.Set(HeaderMessageID, Attribute(d.Job.MessageID))
	header.Set(HeaderAttempt, strconv.Itoa(d.Attempt))
	header.Set(HeaderStoreSequence, strconv.FormatInt(d.StoreSeq, 10))
	header.Set(HeaderRedelivered, strconv.FormatBool(d.Redelivered))
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
	reason := answer.Header.Get(HeaderReason)
	if reason == "" {
		reason = fmt.Sprintf("the handler answered %d", answer.StatusCode)
	}
	reason = protocol.ClipReason(reason)
	switch status := answer.StatusCode; {
	case status == http.StatusUnprocessableEntity || strings.EqualFold(answer.Header.Get(HeaderOutcome), OutcomeReject):
		return endpoint.Result{Outcome: protocol.Rejected, Reason: reason}
	case answer.Header.Get(HeaderOutcome) != "":
		return endpoint.Result{Outcome: protocol.Nacked, Reason: "the handler's " + HeaderOutcome + " is not understood"}
	case status >= 200 && status < 300:
		return endpoint.Result{Outcome: protocol.Confirmed}
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
