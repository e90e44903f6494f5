package intake

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// benchBatch is a batch of n events with 256 bytes of binary data each.
func benchBatch(n int) []byte {
	var out strings.Builder
	payload := make([]byte, 256)
	for i := range n {
		for at := range payload {
			payload[at] = byte(at * i)
		}
		fmt.Fprintf(&out, `%c{"specversion":"1.0","source":"/bench","type":"bench.job","id":"job-%d","datacontenttype":"application/octet-stream","data_base64":"%s"}`,
			"[,"[min(i, 1)], 100_000+i, base64.StdEncoding.EncodeToString(payload))
	}
	return []byte(out.String() + "]")
}

func BenchmarkDecodeBatch(b *testing.B) {
	const events = 128
	header, body := http.Header{"Content-Type": {typeEventBatch}}, benchBatch(events)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		jobs, err := decodeJobs(header, typeEventBatch, "subject", body)
		if err != nil || len(jobs) != events || jobs[events-1].err != nil {
			b.Fatal(len(jobs), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/job")
}
