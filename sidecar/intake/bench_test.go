package intake_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkBatch submits batches of 128 events of 256 bytes to a flow whose worker confirms at once. A figure a job is of the
// intake, the producer and the worker together, without a connection.
func BenchmarkBatch(b *testing.B) {
	const events, digits = 128, 9
	w := newWorld(b, nil)
	w.work(confirm)
	payload := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("x"), 256))
	id := strings.Repeat("0", digits)
	event := `{"specversion":"1.0","id":"` + id + `","source":"/b","type":"t","datacontenttype":"a/b","data_base64":"` + payload + `"}`
	body := []byte("[" + strings.TrimSuffix(strings.Repeat(event+",", events), ",") + "]")
	next := 0
	b.ReportAllocs()
	for b.Loop() {
		for n := range events {
			at := 1 + n*(len(event)+1) + strings.Index(event, id)
			copy(body[at:at+digits], fmt.Appendf(nil, "%0*d", digits, next))
			next++
		}
		request := httptest.NewRequest(http.MethodPost, jobs, bytes.NewReader(body))
		request.Header.Set("Authorization", "Bearer user:alice")
		request.Header.Set("Content-Type", "application/cloudevents-batch+json")
		answer := httptest.NewRecorder()
		w.server.Config.Handler.ServeHTTP(answer, request)
		if answer.Code != http.StatusOK {
			b.Fatalf("%d %s", answer.Code, answer.Body)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/job")
}
