package intake_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
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

// BenchmarkLines submits events of 256 bytes as lines of one stream after the other. A figure a job is of everything, both ends of
// the connection included.
func BenchmarkLines(b *testing.B) {
	const events = 4000
	w := newWorld(b, nil)
	w.work(confirm)
	payload := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("x"), 256))
	next := 0
	b.ReportAllocs()
	for b.Loop() {
		var body bytes.Buffer
		for range events {
			body.WriteString(`{"specversion":"1.0","id":"` + strconv.Itoa(next) + `","source":"/b","type":"t","datacontenttype":"a/b","data_base64":"` + payload + "\"}\n")
			next++
		}
		answer := w.send("POST", jobs, body.String(), "Content-Type", "application/x-ndjson")
		if stored := strings.Count(answer.body, `"new":true`); answer.status != http.StatusOK || stored != events {
			b.Fatalf("%d, %d stored", answer.status, stored)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/job")
}
