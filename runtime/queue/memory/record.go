package memory

import (
	"bytes"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// record is an entry with the bytes of its job, which it owns. These are empty once the job is settled.
type record struct {
	ledger.Entry
	headers []string // keys and values in turn
	payload []byte
}

// mostSpare records of jobs that are over are kept for new ones, each with the memory of at most mostSpareBytes of payload.
const (
	mostSpare      = 1024
	mostSpareBytes = 4096
)

// record returns an empty one.
func (t *table) record() *record {
	n := len(t.spare)
	if n == 0 {
		return &record{}
	}
	r := t.spare[n-1]
	t.spare = t.spare[:n-1]
	return r
}

// release takes a record that nothing refers to any more.
func (t *table) release(r *record) {
	if len(t.spare) < mostSpare && cap(r.payload) <= mostSpareBytes {
		clear(r.headers)
		*r = record{headers: r.headers[:0], payload: r.payload[:0]}
		t.spare = append(t.spare, r)
	}
}

// keep copies the bytes of a job into an empty record. Memory of a much larger job is not used for it: the small one may wait for long.
func (r *record) keep(job *protocol.Job) {
	if cap(r.payload) > 2*len(job.Payload) {
		r.payload = nil
	}
	if cap(r.headers) > 4*len(job.Headers) {
		r.headers = nil
	}
	r.payload = append(r.payload, job.Payload...)
	for key, value := range job.Headers {
		r.headers = append(r.headers, key, value)
	}
}

// forget gives up the bytes of the job.
func (r *record) forget() { r.headers, r.payload = nil, nil }

// job copies the bytes.
func (r *record) job() protocol.Job {
	job := protocol.Job{MessageID: r.MessageID, Payload: bytes.Clone(r.payload)}
	if len(r.headers) > 0 {
		job.Headers = make(map[string]string, len(r.headers)/2)
		for i := 0; i < len(r.headers); i += 2 {
			job.Headers[r.headers[i]] = r.headers[i+1]
		}
	}
	return job
}
