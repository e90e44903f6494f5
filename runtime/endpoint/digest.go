package endpoint

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"
	"sync"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// Digest tells whether a repeated MessageID came with the same job: it covers the payload and the headers, without those that
// legitimately differ from one try to the next (trace context, and the time stamp that client libraries renew).
func Digest(job protocol.Job) queue.Digest {
	d := digesters.Get().(*digester)
	defer digesters.Put(d)
	d.sum.Reset()
	d.keys = slices.AppendSeq(d.keys[:0], maps.Keys(job.Headers))
	slices.Sort(d.keys)
	for _, key := range d.keys {
		switch key {
		case protocol.HeaderTraceParent, protocol.HeaderTraceState, protocol.HeaderCloudEvent + "time",
			protocol.HeaderCloudEvent + protocol.HeaderTraceParent, protocol.HeaderCloudEvent + protocol.HeaderTraceState:
			continue
		}
		d.field(key)
		d.field(job.Headers[key])
	}
	clear(d.keys)
	d.field("")
	d.sum.Write(job.Payload)
	d.text = d.sum.Sum(d.text[:0])
	return queue.Digest(d.text)
}

// digester is what the digest of one job needs, to be used again for the next.
type digester struct {
	sum  hash.Hash
	keys []string
	text []byte
}

var digesters = sync.Pool{New: func() any { return &digester{sum: sha256.New()} }}

// field writes a length before the text, so that no two lists of fields read the same.
func (d *digester) field(text string) {
	d.text = binary.BigEndian.AppendUint32(d.text[:0], uint32(len(text)))
	d.text = append(d.text, text...)
	d.sum.Write(d.text)
}
