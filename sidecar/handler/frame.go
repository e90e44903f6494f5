package handler

import (
	"time"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	appv1 "github.com/workpulling/workpulling/runtime/protocol/app/v1"
	"github.com/workpulling/workpulling/runtime/protocol/wire"
)

// AppVersion is the version of workpulling.app.v1 that the sidecar speaks.
const AppVersion = 1

const (
	// MaxAppFrameBytes is the largest frame that an app may send: a thousand outcomes with the longest reasons, and some.
	MaxAppFrameBytes = 4 << 20
	// frameBytes is the size at which deliveries go into the next frame; one that is larger travels alone. An app that has raised no
	// limit of its gRPC library takes every frame of a flow whose payload.maxBytes is the default.
	frameBytes = wire.MaxFrameBytes
)

// size is about what a delivery takes in a frame.
func size(d *protocol.Delivery) int {
	n := 64 + len(d.Job.MessageID) + len(d.Job.Payload)
	for key, value := range d.Job.Headers {
		n += len(key) + len(value) + 8
	}
	return n
}

// write fills in the frame's form of an attempt; left is the rest of its timeout, 0 for none.
func (a *attempt) write(out *appv1.Delivery, namespace string, left time.Duration) {
	d := &a.delivery
	out.Id = a.id
	out.MessageId = d.Job.MessageID
	out.Namespace = namespace
	out.Flow = a.flow
	out.Attempt = int32(d.Attempt)
	out.Redelivered = d.Redelivered
	out.StoreSequence = d.StoreSeq
	out.Headers = forwardedHeaders(d.Job.Headers)
	out.Payload = d.Job.Payload
	out.TimeoutMilliseconds = milliseconds(left)
}

// milliseconds rounds up, so that a short time does not become none.
func milliseconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Millisecond) + 1
}

// forwardedHeaders is headers without those that an app has no business with.
func forwardedHeaders(headers map[string]string) []*appv1.Header {
	if len(headers) == 0 {
		return nil
	}
	out, room := make([]*appv1.Header, 0, len(headers)), make([]appv1.Header, len(headers))
	for key, value := range headers {
		if forwarded(key) {
			header := &room[len(out)]
			header.Key, header.Value = key, value
			out = append(out, header)
		}
	}
	return out
}

// resultOf is what an app's outcome means. known is false for a result that does not exist, which is a failure.
func resultOf(outcome *appv1.Outcome) (result endpoint.Result, known bool) {
	result.Reason = protocol.ClipReason(outcome.GetReason())
	switch outcome.GetResult() {
	case appv1.Result_RESULT_CONFIRMED:
		return endpoint.Result{Outcome: protocol.Confirmed}, true
	case appv1.Result_RESULT_NACK:
		result.Outcome = protocol.Nacked
	case appv1.Result_RESULT_REJECT:
		result.Outcome = protocol.Rejected
	case appv1.Result_RESULT_DELAY:
		result.Outcome, result.RetryAfter = protocol.Delayed, clampDelay(waitOf(outcome.GetRetryAfterMilliseconds()))
	case appv1.Result_RESULT_HAND_BACK:
		result.Outcome = protocol.HandedBack
	default:
		return endpoint.Result{Outcome: protocol.Nacked, Reason: "the app's result is not understood"}, false
	}
	return result, true
}

// waitOf cannot overflow.
func waitOf(ms int64) time.Duration {
	return time.Duration(min(max(ms, 0), maxDelay.Milliseconds())) * time.Millisecond
}
