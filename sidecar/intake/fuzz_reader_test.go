package intake

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// readAsModel reads a body of events with encoding/json and the library for CloudEvents alone.
func readAsModel(header http.Header, body []byte) ([]decoded, error) {
	raw := []json.RawMessage{body}
	if mediaType(header) == typeEventBatch {
		raw = nil
		if err := json.Unmarshal(body, &raw); err != nil {
			return nil, errNoBatch
		}
		if len(raw) == 0 || len(raw) > maxBatch {
			return nil, malformed("a batch has 1…%d events, this one has %d", maxBatch, len(raw))
		}
	}
	var jobs []decoded
	for _, one := range raw {
		var members map[string]json.RawMessage
		_ = json.Unmarshal(one, &members)
		if binary := members["data_base64"]; binary != nil && binary[0] != '"' && binary[0] != 'n' {
			jobs = append(jobs, decoded{err: errNoEvent}) // the library does not expect this
			continue
		}
		event, err := decodeStructured(one)
		jobs = append(jobs, fromEvent(header, event, err))
	}
	return jobs, nil
}

// read reads a body as the intake does, which is gone then.
func read(header http.Header, body []byte) ([]decoded, error) {
	r := newReader(header)
	body = bytes.Clone(body)
	defer func() {
		for at := range body {
			body[at] = '#'
		}
	}()
	if mediaType(header) == typeEventBatch {
		return r.many(body)
	}
	return []decoded{r.one(body)}, nil
}

// checkReader reads a body both ways: the same is taken, and taken for the same.
func checkReader(t *testing.T, header http.Header, body []byte) {
	t.Helper()
	want, wantErr := readAsModel(header, body)
	got, err := read(header, body)
	if (err == nil) != (wantErr == nil) || len(got) != len(want) {
		t.Fatalf("%q is %d jobs and %v, want %d and %v", body, len(got), err, len(want), wantErr)
	}
	jobOf := func(d decoded) (protocol.Job, bool) { return d.job, d.err == nil }
	for n := range got {
		job, ok := jobOf(got[n])
		wantJob, wantOK := jobOf(want[n])
		if ok != wantOK {
			t.Errorf("event %d of %q: %v, want %v", n, body, got[n].err, want[n].err)
		} else if diff := cmp.Diff(wantJob, job); ok && diff != "" {
			t.Errorf("event %d of %q (-want +got):\n%s", n, body, diff)
		}
	}
}

// events are bodies of one event each, usual and unusual.
var events = []string{
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":1}}`,
	`{"data":{"a":[true,false,null,1.5,"e\"1e5"]},"type":"t","source":"/s","id":"1","specversion":"1.0"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"application/octet-stream","data_base64":"AAE="}`,
	`{"data_base64":"AAE=","specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"application/octet-stream"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain; charset=utf-8","data":"a\n\u00e4\ud83d\ude00"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain","data":"\ud800 \udc00\ud800"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain","data":{"not":"text"}}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain","data":null}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"application/json ","data":"text"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/json;a=b","data": [ 1 , 2 ] ,"subject":"x"}`,
	` { "specversion" : "1.0" , "id" : "1" , "source" : "/s" , "type" : "t" , "data" : 	 7 } `,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":null}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":""}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1e999}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":[0.1e99,"1e5"],"subject":"s"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"application/json","data":1e999,"subject":"s"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"data_base64":"AA=="}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"A"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"A\u0041=="}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":""}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":null}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":1}`,
	`{"data_base64":1,"specversion":"1.0","id":"1","source":"/s","type":"t"}`,
	`{"data_base6\u0034":1,"specversion":"1.0","id":"1","source":"/s","type":"t"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":123456}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":1,"data_base64":"AA=="}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"a/b","data_base64":null,"data":"x"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t"}`,
	`{"specversion":"0.3","id":"1","source":"/s","type":"t","data":1}`,
	`{"id":"1","source":"/s","type":"t","data":1}`,
	`{"specversion":"1.0","specversion":"1.0","id":"1","source":"/s","type":"t","data":1}`,
	`{"specversion":"1.0","id":"1","id":"2","source":"/s","type":"t","data":1}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"data":2}`,
	`{"specversion":"1.0","id":"\u0031","source":"/s","type":"t","data":1}`,
	`{"specversion":"1.0","i\u0064":"1","source":"/s","type":"t","data":1}`,
	`{"specversion":"1.0","id":1,"source":"/s","type":"t","data":1}`,
	`{"specversion":"1.0","id":" ","source":"/s","type":"t","data":1}`,
	`{"specversion":"1.0","id":"","source":"/s","type":"t","data":1}`,
	`{"specversion":"1.0","id":"1","source":"","type":"t","data":1}`,
	`{"specversion":"1.0","id":"1","source":"http://a b/%zz","type":"t","data":1}`,
	`{"specversion":"1.0","id":"1","source":"//h/ä|b c?q#f","type":"t","data":1}`,
	`{"specversion":"1.0","id":"` + strings.Repeat("x", 300) + `","source":"/s","type":"t","data":1}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"time":"2026-01-31T12:00:00.5+01:00","subject":"s"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"time":"0001-01-01T00:00:00Z"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"time":"yesterday"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"time":"","subject":"","dataschema":"","datacontenttype":""}`,
	`{"datacontenttype":"","specversion":"1.0","id":"1","source":"/s","type":"t","data":1}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"subject":" "}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"dataschema":"https://a/b"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"dataschema":"b"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"datacontenttype":";"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"a":"x","b2":"y","traceparent":"t","tracestate":"s"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"A":"x"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"a":"x","a":"y"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"a":"x","a":""}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"a":"","a":"x"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"a":1,"b":true,"c":null,"d":-1.5,"e":1e999}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"a":3000000000}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"a":[]}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"a-b":"x"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"":"x","data":2}`,
	`{"schemaurl":"x","datacontentencoding":"y","specversion":"1.0","id":"1","source":"/s","type":"t","data":1}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"schemaurl":"x","datacontentencoding":"base64"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"specVersion":"x"}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1` + strings.Repeat(`,"a":"x"`, 100) + `}`,
	"{\"specversion\":\"1.0\",\"id\":\"\xff\",\"source\":\"/s\",\"type\":\"t\",\"data\":1}",
	"{\"specversion\":\"1.0\",\"id\":\"a\tb\",\"source\":\"/s\",\"type\":\"t\",\"data\":1}",
	"{\"specversion\":\"1.0\",\"id\":\"a\x7fb\",\"source\":\"/s\",\"type\":\"t\",\"data\":1}",
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":` + strings.Repeat("[", 9998) + strings.Repeat("]", 9998) + `}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + `}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{1}}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":01}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,}`,
	`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1}x`,
	`{"specversion":"1.0"`, `{`, `{}`, `null`, `1`, `"x"`, `[]`, ``, ` `, "\ufeff{}",
}

// What the reader makes of events by itself is what the library makes of them.
func TestReaderAgreesWithTheLibrary(t *testing.T) {
	for _, kind := range []string{typeEvent, typeLines} {
		header := http.Header{"Content-Type": {kind}, "Traceparent": {"of the request"}}
		for _, event := range events {
			checkReader(t, header, []byte(event))
		}
	}
	header := http.Header{"Content-Type": {typeEventBatch}}
	for n, event := range events {
		checkReader(t, header, []byte("["+event+"]"))
		checkReader(t, header, []byte("[ "+event+" , "+events[n/2]+"\n]"))
		checkReader(t, header, []byte("["+event+","+event))
		checkReader(t, header, []byte(event))
	}
	for _, events := range []int{maxBatch, maxBatch + 1} {
		many := "[" + strings.Repeat("{},", events-1)
		checkReader(t, header, []byte(many+"{}]"))
		checkReader(t, header, []byte(many+"{]"))
		checkReader(t, header, []byte(many+"{}]{}"))
	}
}

// FuzzReader reads any body both ways, of each media type that has events in JSON format.
func FuzzReader(f *testing.F) {
	kinds := []string{typeEvent, typeLines, typeEventBatch}
	for n, event := range events {
		f.Add(uint8(n), []byte(event))
		f.Add(uint8(2), []byte("["+event+","+events[n/2]+"]"))
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		checkReader(t, http.Header{"Content-Type": {kinds[int(kind)%len(kinds)]}}, body)
	})
}
