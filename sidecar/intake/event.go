package intake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// Content types of CloudEvents and the header of a plain body's key.
const (
	typeEvent          = cloudevents.ApplicationCloudEventsJSON
	typeEventBatch     = cloudevents.ApplicationCloudEventsBatchJSON
	typeLines          = "application/x-ndjson"
	headerKey          = "Idempotency-Key"
	headerSpec         = "Ce-Specversion"
	prefixEvent        = "Ce-"
	defaultContentType = "application/octet-stream"
)

// maxBatch is how many events one request may carry.
const maxBatch = 1000

// mediaType returns the media type of a request without its parameters, "" if there is none.
func mediaType(header http.Header) string {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// decodeJobs turns a body of a media type into jobs, which do not refer to it. An idempotency key belongs to scope.
func decodeJobs(header http.Header, kind, scope string, body []byte) ([]decoded, error) {
	switch {
	case kind == typeEventBatch:
		return newReader(header).many(body)
	case kind == typeEvent:
		return []decoded{newReader(header).one(body)}, nil
	case header.Get(headerSpec) != "":
		event, err := decodeBinary(header, body)
		return []decoded{fromEvent(header, event, err)}, nil
	default:
		return []decoded{decodePlain(header, scope, body)}, nil
	}
}

// decoded is one job of a request, or why it is none.
type decoded struct {
	job protocol.Job
	err error
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", protocol.ErrInvalid, fmt.Sprintf(format, args...))
}

func decodePlain(header http.Header, scope string, body []byte) decoded {
	key := header.Get(headerKey)
	if n := len(header.Values(headerKey)); n > 1 {
		return decoded{err: malformed("the header %s is there %d times", headerKey, n)}
	}
	if key == "" {
		return decoded{err: malformed("send a CloudEvent, or a plain body with an %s header: without a key a repeat could not be told from a new job", headerKey)}
	}
	return checked(protocol.Job{MessageID: keyID(scope, key), Headers: kept(header), Payload: bytes.Clone(body)})
}

// kept are the headers that travel with a job besides the attributes of its event.
func kept(header http.Header) map[string]string {
	out := map[string]string{protocol.HeaderContentType: header.Get("Content-Type")}
	if out[protocol.HeaderContentType] == "" {
		out[protocol.HeaderContentType] = defaultContentType
	}
	maps.Copy(out, traces(header))
	return out
}

// traces are the headers of the trace context.
func traces(header http.Header) map[string]string {
	var out map[string]string
	for _, name := range []string{protocol.HeaderTraceParent, protocol.HeaderTraceState} {
		if value := header.Get(name); value != "" {
			if out == nil {
				out = map[string]string{}
			}
			out[name] = value
		}
	}
	return out
}

// standIn takes the distributed tracing extension for the trace headers where those are absent.
func standIn(headers map[string]string, extension, text string) {
	if extension != protocol.HeaderTraceParent && extension != protocol.HeaderTraceState {
		return
	}
	if _, ok := headers[extension]; !ok {
		headers[extension] = text
	}
}

// decodeStructured reads an event in JSON format, whatever its form.
func decodeStructured(body []byte) (*cloudevents.Event, error) {
	if !utf8.Valid(body) { // or two ids that differ in what is no text would become one
		return nil, errNoText
	}
	event := new(cloudevents.Event)
	if err := json.Unmarshal(body, event); err != nil || event.SpecVersion() != cloudevents.CloudEventsVersionV1 {
		// The library's text may quote the event: say where to look instead.
		return nil, errNoEvent
	}
	return event, nil
}

func decodeBinary(header http.Header, body []byte) (*cloudevents.Event, error) {
	if header.Get(headerSpec) != cloudevents.CloudEventsVersionV1 {
		return nil, malformed("the CloudEvent breaks the specification: its version is not %s", cloudevents.CloudEventsVersionV1)
	}
	event := cloudevents.New(cloudevents.CloudEventsVersionV1)
	for name, values := range header {
		attribute, ok := strings.CutPrefix(name, prefixEvent)
		if !ok {
			continue
		}
		if len(values) > 1 {
			return nil, malformed("the header %s is there %d times", name, len(values))
		}
		value, err := url.PathUnescape(values[0])
		if err != nil {
			value = values[0]
		}
		if err := setAttribute(&event, strings.ToLower(attribute), value); err != nil {
			return nil, err
		}
	}
	if kind := header.Get("Content-Type"); kind != "" {
		event.SetDataContentType(kind)
	}
	event.DataEncoded = bytes.Clone(body)
	return &event, nil
}

func setAttribute(event *cloudevents.Event, name, value string) error {
	switch name {
	case "specversion":
	case "id":
		event.SetID(value)
	case "source":
		event.SetSource(value)
	case "type":
		event.SetType(value)
	case "subject":
		event.SetSubject(value)
	case "dataschema":
		event.SetDataSchema(value)
	case "time":
		at, err := time.Parse(time.RFC3339Nano, value)
		if err != nil {
			return malformed("the attribute time is no RFC 3339 time stamp")
		}
		event.SetTime(at)
	default:
		event.SetExtension(name, value)
	}
	return nil
}

// fromEvent makes the job of an event.
func fromEvent(header http.Header, event *cloudevents.Event, err error) decoded {
	if err != nil {
		return decoded{err: err}
	}
	if err := event.Validate(); err != nil {
		return decoded{err: malformed("the CloudEvent breaks the specification: %s", strings.Join(strings.Fields(err.Error()), " "))}
	}
	headers := kept(header)
	set := func(name, value string) {
		if value != "" {
			headers[protocol.HeaderCloudEvent+name] = value
		}
	}
	headers[protocol.HeaderContentType] = event.DataContentType()
	if headers[protocol.HeaderContentType] == "" {
		headers[protocol.HeaderContentType] = defaultContentType
		switch mediaType(header) {
		case typeEvent, typeEventBatch, typeLines:
			headers[protocol.HeaderContentType] = cloudevents.ApplicationJSON
		}
	}
	set("specversion", event.SpecVersion())
	set("id", event.ID())
	set("source", event.Source())
	set("type", event.Type())
	set("subject", event.Subject())
	set("dataschema", event.DataSchema())
	if !event.Time().IsZero() {
		set("time", event.Time().Format(time.RFC3339Nano))
	}
	for name, value := range event.Extensions() {
		text := fmt.Sprint(value)
		set(name, text)
		standIn(headers, name, text)
	}
	return checked(protocol.Job{MessageID: eventID(event.Source(), event.ID()), Headers: headers, Payload: event.Data()})
}

func checked(job protocol.Job) decoded {
	return decoded{job: job, err: job.Validate(0)}
}
