package wire

import (
	"fmt"
	"math"
	"time"

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

// decodeJob leaves the limits to Job.Validate, which the caller calls.
func decodeJob(job *pb.Job) (protocol.Job, error) {
	if job == nil {
		return protocol.Job{}, invalid("job is missing")
	}
	return protocol.Job{MessageID: job.GetMessageId(), Headers: job.GetHeaders(), Payload: job.GetPayload()}, nil
}

func encodeJob(job protocol.Job) *pb.Job {
	return &pb.Job{MessageId: job.MessageID, Headers: job.Headers, Payload: job.Payload}
}
