package workpulling

import (
	"strings"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// Job is what a producer or client submits.
type Job struct {
	// ID is the deduplication key, 1…256 bytes of UTF-8 without control characters. Required: without an ID of the submitter's own, a
	// repeat after a lost answer could not be told from a new job.
	ID string
	// Headers travel with the job: at most 64, at most 16 KiB together, keys in lower case. The attributes of a CloudEvent have the prefix
	// "ce-", the media type of the payload is "content-type", the trace context "traceparent" and "tracestate". Nil for none.
	Headers map[string]string
	// Payload has at least one byte, and at most what the flow allows (1 MiB by default).
	//
	// Headers and Payload belong to the flow once the job was submitted, and are shared with the handler in the same process: nobody may
	// change them any more.
	Payload []byte
}

// ContentType is the media type of the payload, "" where the submitter gave none.
func (j Job) ContentType() string { return j.Headers[protocol.HeaderContentType] }

// Attribute is the value of a CloudEvents attribute, such as "type", "source" or an extension, "" where there is none.
func (j Job) Attribute(name string) string {
	return j.Headers[protocol.HeaderCloudEvent+strings.ToLower(name)]
}

// Delivery is a job in the hands of a worker.
type Delivery struct {
	Job
	// Flow is the name of the flow that it came by.
	Flow string
	// Attempt counts the tries of this job, from 1.
	Attempt int
	// Redelivered says that the job was given to a worker before, which may have had some of its effect. False does not exclude it
	// after the submitter has used the same ID beyond the deduplication window.
	Redelivered bool
	// Sequence is the place of the job in the queue of its flow, from 1: jobs with a lower one were stored earlier.
	Sequence int64
}

func deliveryOf(flow string, d protocol.Delivery) Delivery {
	return Delivery{
		Job:  Job{ID: d.Job.MessageID, Headers: d.Job.Headers, Payload: d.Job.Payload},
		Flow: flow, Attempt: d.Attempt, Redelivered: d.Redelivered, Sequence: d.StoreSeq,
	}
}
