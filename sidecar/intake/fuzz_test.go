package intake

import (
	"errors"
	"net/http"
	"net/url"
	"testing"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// FuzzDecodeJobs feeds arbitrary bodies of every kind: nothing may panic, and what is accepted keeps the protocol's limits.
func FuzzDecodeJobs(f *testing.F) {
	f.Add("application/cloudevents+json", "", `{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":1}}`)
	f.Add("application/cloudevents-batch+json", "", `[{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"AAE="},null,{}]`)
	f.Add("application/cloudevents+json", "", "{\"specversion\":\"1.0\",\"id\":\"\xff\",\"source\":\"/s\",\"type\":\"t\",\"data\":1}")
	f.Add("text/plain", "1.0", "body")
	f.Add("", "0.3", "body")
	f.Add("text/plain; x", "", "body")
	f.Fuzz(func(t *testing.T, kind, spec, body string) {
		header := http.Header{"Content-Type": {kind}, "Idempotency-Key": {body}, "Ce-Id": {body}, "Ce-Source": {kind}, "Ce-Type": {"t"}, "Ce-Time": {spec}}
		if spec != "" {
			header.Set(headerSpec, spec)
		}
		jobs, err := decodeJobs(header, mediaType(header), "subject", []byte(body))
		if err != nil && !errors.Is(err, protocol.ErrInvalid) {
			t.Errorf("error %v is not ErrInvalid", err)
		}
		for _, one := range jobs {
			if one.err != nil && !errors.Is(one.err, protocol.ErrInvalid) {
				t.Errorf("error %v is not ErrInvalid", one.err)
			}
			if one.err == nil && one.job.Validate(0) != nil {
				t.Errorf("accepted %v", one.job)
			}
		}
	})
}

// FuzzMessageID gives two submitters each a key or an event: no two of them share a MessageID unless everything of them is the same, or two
// submitters could answer for each other.
func FuzzMessageID(f *testing.F) {
	f.Add("system:serviceaccount:ns:a", "k", "system:serviceaccount:ns:b", "k")
	f.Add("auth0|1", "k", "auth0", "1|k")
	f.Add("a%7Cb", "k", "a|b", "k")
	f.Add("/source", "id", "/source", "id")
	f.Fuzz(func(t *testing.T, who, key, otherWho, otherKey string) {
		if who == "" || otherWho == "" || key == "" || otherKey == "" {
			return
		}
		same := who == otherWho && key == otherKey
		if (keyOf(who, key) == keyOf(otherWho, otherKey)) != same {
			t.Errorf("keys %q of %q and %q of %q", key, who, otherKey, otherWho)
		}
		if keyOf(who, key) == eventID(otherWho, otherKey) {
			t.Errorf("key %q of %q and event %q of %q", key, who, otherKey, otherWho)
		}
	})
}

// FuzzPage reads any query as the page of a list, and any text as the sequence of a job: it is a page that can be, or an error that says so.
func FuzzPage(f *testing.F) {
	for _, query := range []string{"", "after=12&limit=100", "after=-1", "after=9223372036854775807", "limit=1001", "after=1&after=x", "%zz", "after=１"} {
		f.Add(query, "1")
	}
	f.Add("limit=0", "0")
	f.Add("after=+1", "9223372036854775807")
	f.Fuzz(func(t *testing.T, query, sequence string) {
		request := &http.Request{URL: &url.URL{RawQuery: query}}
		after, limit, err := pageOf(request)
		if err == nil && (after < 0 || after > protocol.MaxSequence || limit < 0 || limit > maxPage) {
			t.Errorf("%q is the page of %d after %d", query, limit, after)
		}
		if err != nil && !errors.Is(err, protocol.ErrInvalid) {
			t.Errorf("error %v is not ErrInvalid", err)
		}
		request.SetPathValue("sequence", sequence)
		seq, err := sequenceOf(request)
		if err == nil && (seq < 1 || seq > protocol.MaxSequence) || err != nil && !errors.Is(err, protocol.ErrInvalid) {
			t.Errorf("%q is sequence %d, error %v", sequence, seq, err)
		}
	})
}
