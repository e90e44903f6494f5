package endpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// Digest tells whether a repeated MessageID came with the same job: it covers the payload and the headers, without those that
// legitimately differ from one try to the next (trace context, and the time stamp that client libraries renew).
func Digest(job protocol.Job) queue.Digest {
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(job.Headers)) {
		switch key {
		case protocol.HeaderTraceParent, protocol.HeaderTraceState, protocol.HeaderCloudEvent + "time",
			protocol.HeaderCloudEvent + protocol.HeaderTraceParent, protocol.HeaderCloudEvent + protocol.HeaderTraceState:
			continue
		}
		field(sum, key)
		field(sum, job.Headers[key])
	}
	field(sum, "")
	sum.Write(job.Payload)
	return queue.Digest(sum.Sum(nil))
}

// field writes a length before the text, so that no two lists of fields read the same.
func field(sum hash.Hash, text string) {
	var size [4]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(text)))
	sum.Write(size[:])
	sum.Write([]byte(text))
}
