package intake

import (
	"errors"
	"net/http"
	"testing"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// FuzzDecodeJobs feeds arbitrary bodies of every kind: nothing may panic, and what is accepted keeps the protocol's limits.
func FuzzDecodeJobs(f *testing.F) {
	f.Add("application/cloudevents+json", "", `{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"a":1}}`)
	f.Add("application/cloudevents-batch+json", "", `[{"specversion":"1.0","id":"1","source":"/s","type":"t","data_base64":"AAE="},null,{}]`)
	f.Add("text/plain", "1.0", "body")
	f.Add("", "0.3", "body")
	f.Add("text/plain; x", "", "body")
	f.Fuzz(func(t *testing.T, kind, spec, body string) {
		header := http.Header{"Content-Type": {kind}, "Idempotency-Key": {body}, "Ce-Id": {body}, "Ce-Source": {kind}, "Ce-Type": {"t"}, "Ce-Time": {spec}}
		if spec != "" {
			header.Set(headerSpec, spec)
		}
		jobs, _, err := decodeJobs(header, "subject", []byte(body))
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
