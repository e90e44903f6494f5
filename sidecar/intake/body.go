package intake

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// structuredOverhead is what JSON and base64 may add to a payload.
const structuredOverhead = 64 << 10

// read takes the body in, bounded. It holds its share of the memory until release, and is gone then.
func (i *Intake) read(w http.ResponseWriter, r *http.Request, kind string) (body []byte, release func(), err error) {
	if err := checkCoding(w, r); err != nil {
		return nil, nil, err
	}
	limit := int64(i.options.MaxPayload())
	switch kind {
	case typeEvent:
		limit = limit*4/3 + structuredOverhead
	case typeEventBatch:
		limit = max(limit*4/3+structuredOverhead, protocol.MaxPayloadBytes)
	}
	if r.ContentLength > limit {
		return nil, nil, tooLarge(limit)
	}
	share := r.ContentLength
	if share < 0 {
		share = limit
	}
	if !i.memory.TryAcquire(share) {
		return nil, nil, kindNoCredit.problem().after(time.Second)
	}
	buffer := borrow(r.ContentLength)
	release = func() {
		giveBack(buffer)
		i.memory.Release(share)
	}
	if _, err := buffer.ReadFrom(http.MaxBytesReader(w, r.Body, limit)); err != nil {
		release()
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, nil, tooLarge(limit)
		}
		return nil, nil, kindTruncated.problem()
	}
	return buffer.Bytes(), release, nil
}

// buffers hold bodies, which no job refers to.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxBuffer is the largest one that is kept.
const maxBuffer = 1 << 20

// borrow returns an empty buffer for size bytes; less than 0 says that nobody knows.
func borrow(size int64) *bytes.Buffer {
	buffer := buffers.Get().(*bytes.Buffer)
	buffer.Reset()
	if size > 0 {
		buffer.Grow(int(size) + bytes.MinRead) // room to find out that nothing follows
	}
	return buffer
}

func giveBack(buffer *bytes.Buffer) {
	if buffer.Cap() <= maxBuffer {
		buffers.Put(buffer)
	}
}

// checkCoding refuses a compressed body: a handler would get the bytes without a word about their coding.
func checkCoding(w http.ResponseWriter, r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding == "" || strings.EqualFold(coding, "identity") {
		return nil
	}
	w.Header().Set("Accept-Encoding", "identity")
	return kindEncoded.problem()
}

func tooLarge(limit int64) problem {
	return kindTooLarge.because(fmt.Sprintf(
		"The limit is %d bytes (spec.payload.maxBytes of the flow). Store large data elsewhere and submit a reference.", limit))
}
