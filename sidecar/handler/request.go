package handler

import (
	"fmt"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// The attributes that the sidecar sets whatever the submitter says, as keys of a job's headers.
var own = map[string]bool{
	strings.ToLower(HeaderMessageID): true, strings.ToLower(HeaderAttempt): true,
	strings.ToLower(HeaderStoreSequence): true, strings.ToLower(HeaderRedelivered): true,
}

// The attributes that get a truthful default where the submitter gave none.
const (
	attributeVersion = protocol.HeaderCloudEvent + "specversion"
	attributeID      = protocol.HeaderCloudEvent + "id"
	attributeSource  = protocol.HeaderCloudEvent + "source"
	attributeType    = protocol.HeaderCloudEvent + "type"
)

// address is a target made ready for requests.
type address struct {
	target Target
	dial   string // host and port
	head   []byte // the beginning of every request, to the length of its body
}

// newAddress fails for a path that is none.
func newAddress(target Target) (*address, error) {
	where, err := url.Parse(target.URL())
	if err != nil {
		return nil, fmt.Errorf("reading the handler's address: %w", err)
	}
	head := "POST " + where.RequestURI() + " HTTP/1.1\r\nHost: " + where.Host + "\r\nUser-Agent: workpulling\r\nContent-Length: "
	return &address{target: target, dial: target.Address(), head: []byte(head)}, nil
}

// appendHead adds the head of a request with one delivery: its CloudEvent in binary mode. The submitter's attributes win; what is missing
// gets a default, source among them. ok is false where a header cannot be sent, which no validated job has.
func (a *address) appendHead(to []byte, d *protocol.Delivery, source string) (head []byte, ok bool) {
	to = append(to, a.head...)
	to = strconv.AppendInt(to, int64(len(d.Job.Payload)), 10)
	to = append(to, "\r\n"...)
	headers := d.Job.Headers
	for key, value := range headers {
		if own[key] || !forwarded(key) {
			continue
		}
		if strings.HasPrefix(key, protocol.HeaderCloudEvent) {
			value = Attribute(value)
		}
		if !httpguts.ValidHeaderFieldName(key) || !httpguts.ValidHeaderFieldValue(value) {
			return to, false
		}
		to = appendHeader(to, key, textproto.TrimString(value))
	}
	to = appendMissing(to, headers, attributeVersion, "1.0")
	to = appendMissing(to, headers, attributeID, d.Job.MessageID)
	to = appendMissing(to, headers, attributeSource, source)
	to = appendMissing(to, headers, attributeType, "dev.workpulling.job")
	to = appendMissing(to, headers, protocol.HeaderContentType, "application/octet-stream")
	to = appendHeader(to, HeaderMessageID, Attribute(d.Job.MessageID))
	to = appendHeader(to, HeaderAttempt, strconv.Itoa(d.Attempt))
	to = appendHeader(to, HeaderStoreSequence, strconv.FormatInt(d.StoreSeq, 10))
	to = appendHeader(to, HeaderRedelivered, strconv.FormatBool(d.Redelivered))
	return append(to, "\r\n"...), true
}

func appendMissing(to []byte, headers map[string]string, key, value string) []byte {
	if _, found := headers[key]; found {
		return to
	}
	return appendHeader(to, key, Attribute(value))
}

// appendHeader adds a line. Names of headers have no case, and some apps believe that they have: they see the usual one.
func appendHeader(to []byte, key, value string) []byte {
	at := len(to)
	to = append(to, key...)
	first := true
	for i, c := range to[at:] {
		if first && 'a' <= c && c <= 'z' {
			to[at+i] = c - 'a' + 'A'
		}
		first = c == '-'
	}
	to = append(to, ": "...)
	to = append(to, value...)
	return append(to, "\r\n"...)
}
