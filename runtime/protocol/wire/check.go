package wire

import (
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/workpulling/workpulling/runtime/protocol"
	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// Bounds of the frames themselves.
const (
	// MaxFrameBytes is the size at which encoding starts a new frame; one item more than that still travels alone.
	MaxFrameBytes = 1 << 20
	// MaxMessageBytes is the most that a peer may send in one frame: the largest job, its headers and some air.
	MaxMessageBytes = protocol.MaxPayloadBytes + protocol.MaxHeaderBytes + MaxFrameBytes
	// maxItems bounds the repeated fields: no binding has more unsettled deliveries than the largest window.
	maxItems = protocol.MaxFlowControlWindow
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", protocol.ErrInvalid, fmt.Sprintf(format, args...))
}

// checkIDs checks pairs of name and id.
func checkIDs(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if err := protocol.CheckID(pairs[i], pairs[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// checkOptionalID accepts an empty id as well.
func checkOptionalID(what, id string) error {
	if id == "" {
		return nil
	}
	return protocol.CheckID(what, id)
}

func checkSeq(what string, seq int64) error {
	if seq < 1 || seq > protocol.MaxSequence {
		return invalid("%s %d is not in 1…%d", what, seq, int64(protocol.MaxSequence))
	}
	return nil
}

// checkMark is checkSeq for watermarks, where zero means none yet.
func checkMark(what string, seq int64) error {
	if seq == 0 {
		return nil
	}
	return checkSeq(what, seq)
}

func checkCount(what string, n int) error {
	if n > maxItems {
		return invalid("%d %s in one frame, the limit is %d", n, what, maxItems)
	}
	return nil
}

// cut shortens text for people to the protocol's limit at a rune boundary and replaces invalid UTF-8.
func cut(text string) string {
	if len(text) > protocol.MaxReasonBytes {
		end := protocol.MaxReasonBytes
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	if utf8.ValidString(text) {
		return text
	}
	clean := make([]rune, 0, len(text))
	for _, r := range text {
		clean = append(clean, r)
	}
	if out := string(clean); len(out) <= protocol.MaxReasonBytes {
		return out
	}
	return "reason is not valid UTF-8"
}

const maxMilliseconds = math.MaxInt64 / int64(time.Millisecond)

// duration converts milliseconds of the wire; negative values are refused and absurd ones saturate.
func duration(what string, ms int64) (time.Duration, error) {
	if ms < 0 {
		return 0, invalid("%s is negative", what)
	}
	return time.Duration(min(ms, maxMilliseconds)) * time.Millisecond, nil
}

// milliseconds rounds up, so that a short wait does not become none.
func milliseconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Millisecond) + 1
}

// CheckJob returns an error wrapping protocol.ErrInvalid unless the job keeps all limits of the protocol.
func CheckJob(job protocol.Job) error {
	if err := protocol.CheckID("message id", job.MessageID); err != nil {
		return err
	}
	switch {
	case len(job.Payload) == 0:
		return invalid("payload is empty")
	case len(job.Payload) > protocol.MaxPayloadBytes:
		return invalid("payload has %d bytes, the limit is %d", len(job.Payload), protocol.MaxPayloadBytes)
	case len(job.Headers) > protocol.MaxHeaders:
		return invalid("%d headers, the limit is %d", len(job.Headers), protocol.MaxHeaders)
	}
	size := 0
	for key, value := range job.Headers {
		if key == "" || !utf8.ValidString(key) || !utf8.ValidString(value) {
			return invalid("a header has an empty key or is not valid UTF-8")
		}
		size += len(key) + len(value)
	}
	if size > protocol.MaxHeaderBytes {
		return invalid("headers have %d bytes, the limit is %d", size, protocol.MaxHeaderBytes)
	}
	return nil
}

func decodeJob(job *pb.Job) (protocol.Job, error) {
	if job == nil {
		return protocol.Job{}, invalid("job is missing")
	}
	out := protocol.Job{MessageID: job.GetMessageId(), Headers: job.GetHeaders(), Payload: job.GetPayload()}
	return out, CheckJob(out)
}

func encodeJob(job protocol.Job) *pb.Job {
	return &pb.Job{MessageId: job.MessageID, Headers: job.Headers, Payload: job.Payload}
}
