package intake_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// FuzzRequests sends any request to the whole intake, over a real producer: whatever comes, it answers, and never that it is broken.
func FuzzRequests(f *testing.F) {
	w := newWorld(f, nil)
	handler := w.server.Config.Handler
	f.Add("POST", jobs, "", "Content-Type", "application/cloudevents+json", `{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{}}`)
	f.Add("POST", jobs, "", "Content-Type", "application/cloudevents-batch+json", `[{"specversion":"1.0","id":"1","source":"/s","type":"t"},null]`)
	f.Add("POST", jobs, "", "Content-Type", "application/x-ndjson", "{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/s\",\"type\":\"t\",\"data\":{}}\n\n{}\nx")
	f.Add("POST", jobs, "wait=confirmed&timeout=1ms", "Idempotency-Key", "k", "body")
	f.Add("POST", jobs, "wait=confirmed", "Ce-Specversion", "1.0", "body")
	f.Add("POST", jobs, "", "Content-Encoding", "gzip", "body")
	f.Add("POST", jobs, "", "Content-Length", "-1", "body")
	f.Add("GET", jobs+"/a%2Fb", "source=/s", "Accept", "*/*", "")
	f.Add("GET", jobs+"/%00", "source=%ff", "Accept", "", "")
	f.Add("GET", "/v1/flows/orders/dead-letters", "after=-1&limit=9999999999999999999", "", "", "")
	f.Add("POST", "/v1/flows/orders/dead-letters/1/redrive", "", "", "", `{"reason":"x"}`)
	f.Add("POST", "/v1/flows/orders/dead-letters/9223372036854775807/redrive", "", "", "", `{"reason":1}`)
	f.Add("DELETE", "/v1/flows/orders/dead-letters/0", "", "", "", `[`)
	f.Add("GET", "/v1/flows/orders/dead-letters", "after=9223372036854775806&limit=1000", "", "", "")
	f.Add("POST", "/v1/flows/orders/dead-letters/redrive", "reason=%ff&id=/s&from=0001-01-01T00:00:00Z&limit=10000", "", "", "")
	f.Add("POST", "/v1/flows/orders/dead-letters/drop", "all=true&after=1", "", "", `{"reason":"x"}`)
	f.Add("GET", "/v1/flows/orders/dead-letters/1/payload", "", "", "", "")
	f.Add("GET", "/v1/flows/orders/orphans", "after=9223372036854775807", "", "", "")
	f.Add("GET", "/v1/flows/orders/audit", "after=%2B1&limit=0", "", "", "")
	f.Add("POST", "/v1/flows/orders/orphans/1/accept", "", "", "", `{"reason":"\u0000"}`)
	f.Add("PUT", "/v1/flows/../orders//jobs", "", "Authorization", "Bearer", "")
	f.Fuzz(func(t *testing.T, method, path, query, key, value, body string) {
		request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		request.Method, request.URL = method, &url.URL{Path: path, RawQuery: strings.ReplaceAll(query, "confirmed", "stored")}
		request.Header.Set("Authorization", "Bearer user:alice")
		request.Header.Set("Idempotency-Key", body[:min(len(body), 8)])
		request.Header.Set(key, value)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if answer.Code < 200 || answer.Code >= 500 && answer.Code != http.StatusServiceUnavailable {
			t.Errorf("%d %s", answer.Code, answer.Body)
		}
	})
}
