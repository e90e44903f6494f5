package intake

import (
	"bytes"
	"encoding/base64"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// maker makes the jobs of events of the usual form, the same that fromEvent makes: version 1.0, with a source, an id, a type and data, every
// attribute there once, as text that is neither empty nor escaped.
type maker struct {
	traces map[string]string // of the request
	// Events that come together have much in common.
	source, kind, media recalled
}

func newMaker(header http.Header) maker { return maker{traces: traces(header)} }

// recalled is the last text of an attribute, and what it came to.
type recalled struct {
	text, value string
	ok          bool
}

func (r *recalled) of(text []byte, find func(string) (string, bool)) (string, bool) {
	if r.text != string(text) {
		r.text = string(text)
		r.value, r.ok = find(r.text)
	}
	return r.value, r.ok
}

// job returns the job of an event; ok is false if the event has another form.
func (m *maker) job(event *members) (job protocol.Job, ok bool) {
	texts, ok := event.texts()
	if !ok || string(texts[attributeVersion]) != cloudevents.CloudEventsVersionV1 {
		return protocol.Job{}, false
	}
	source, hasSource := m.source.of(texts[attributeSource], reference)
	kind, hasKind := m.kind.of(texts[attributeType], notBlank)
	id, hasID := notBlank(string(texts[attributeID]))
	if !hasSource || !hasKind || !hasID {
		return protocol.Job{}, false
	}
	headers := map[string]string{
		protocol.HeaderContentType:                cloudevents.ApplicationJSON,
		protocol.HeaderCloudEvent + "specversion": cloudevents.CloudEventsVersionV1,
		protocol.HeaderCloudEvent + "id":          id,
		protocol.HeaderCloudEvent + "source":      source,
		protocol.HeaderCloudEvent + "type":        kind,
	}
	maps.Copy(headers, m.traces)
	if !m.describe(headers, &texts) || !extend(headers, event.others) {
		return protocol.Job{}, false
	}
	payload, ok := dataOf(event, string(texts[attributeContentType]))
	return protocol.Job{MessageID: eventID(source, id), Headers: headers, Payload: payload}, ok
}

// describe sets the headers of the attributes that an event need not have.
func (m *maker) describe(headers map[string]string, texts *[attributeTexts][]byte) (ok bool) {
	if media := texts[attributeContentType]; media != nil {
		if headers[protocol.HeaderContentType], ok = m.media.of(media, contentType); !ok {
			return false
		}
	}
	if subject := texts[attributeSubject]; subject != nil {
		if headers[protocol.HeaderCloudEvent+"subject"], ok = notBlank(string(subject)); !ok {
			return false
		}
	}
	if text := texts[attributeTime]; text != nil {
		at, err := time.Parse(time.RFC3339Nano, string(text))
		if err != nil || at.IsZero() {
			return false
		}
		headers[protocol.HeaderCloudEvent+"time"] = at.Format(time.RFC3339Nano)
	}
	return true
}

// extend sets the headers of extensions.
func extend(headers map[string]string, extensions []member) bool {
	for _, e := range extensions {
		value, ok := plain(e.value)
		if !ok || !isExtension(e.name) {
			return false
		}
		text := string(value)
		key := protocol.HeaderCloudEvent + string(e.name)
		if _, repeated := headers[key]; repeated {
			return false
		}
		headers[key] = text
		standIn(headers, key[len(protocol.HeaderCloudEvent):], text)
	}
	return true
}

// isExtension tells whether a name is that of an extension as it is kept.
func isExtension(name []byte) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return len(name) > 0
}

// dataOf is a copy of an event's data.
func dataOf(event *members, media string) ([]byte, bool) {
	data, encoded := event.known[attributeData], event.known[attributeBase64]
	switch {
	case (data == nil) == (encoded == nil):
		return nil, false
	case encoded != nil:
		text, ok := plain(encoded)
		out, err := base64.StdEncoding.AppendDecode(nil, text)
		return out, ok && err == nil
	case holdsJSON(media): // with the space before it, and not with a number that the library may find too large
		return bytes.Clone(data), !hasExponent(data)
	default:
		text := trimSpace(data)
		out, err := jsontext.AppendUnquote(make([]byte, 0, len(text)), text)
		return out, err == nil
	}
}

// holdsJSON tells whether the data of an event with such a content type is a JSON value, and not text.
func holdsJSON(contentType string) bool {
	media, _, more := strings.Cut(contentType, ";")
	if more {
		media = strings.TrimSpace(media)
	}
	switch media {
	case "", cloudevents.ApplicationJSON, cloudevents.TextJSON, typeEvent, typeEventBatch:
		return true
	}
	return false
}

func notBlank(text string) (string, bool) { return text, strings.TrimSpace(text) != "" }

// reference is the usual spelling of a URI reference.
func reference(text string) (string, bool) {
	parsed, err := url.Parse(text)
	if err != nil {
		return "", false
	}
	return notBlank(parsed.String())
}

func contentType(text string) (string, bool) {
	_, _, err := mime.ParseMediaType(strings.TrimSpace(text))
	return text, err == nil
}
