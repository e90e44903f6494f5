package protocol

// Keys of Job.Headers. All keys are lower case; a submitter's other headers are not kept.
const (
	// HeaderContentType is the media type of the payload.
	HeaderContentType = "content-type"
	// HeaderCloudEvent prefixes every CloudEvents attribute, as in the HTTP binary mode: ce-id, ce-source, ce-type, ce-time, ce-<extension>.
	HeaderCloudEvent = "ce-"
	// HeaderTraceParent and HeaderTraceState are the W3C trace context of the submission.
	HeaderTraceParent = "traceparent"
	HeaderTraceState  = "tracestate"
)
