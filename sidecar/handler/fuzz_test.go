package handler

import (
	"net/http"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// FuzzOutcome reads any answer of an app: only a plain 2xx is a success, every wait is within its bounds, and every reason may be sent.
func FuzzOutcome(f *testing.F) {
	f.Add(200, "", "", "", "")
	f.Add(503, "3", "", "", "busy")
	f.Add(429, "Mon, 30 Nov 2026 01:00:00 GMT", "Mon, 30 Nov 2026 00:00:00 GMT", "", "")
	f.Add(422, "-1", "", "", "\xff")
	f.Add(204, "99999999999999", "", "Reject", "")
	f.Fuzz(func(t *testing.T, status int, after, date, outcomeHeader, reason string) {
		answer := &http.Response{StatusCode: status, Header: http.Header{
			"Retry-After": {after}, "Date": {date}, HeaderOutcome: {outcomeHeader}, HeaderReason: {reason},
		}}
		got := outcome(answer)
		if got.Outcome == protocol.Confirmed && (status < 200 || status > 299 || outcomeHeader != "") {
			t.Errorf("%d with outcome %q confirms", status, outcomeHeader)
		}
		if got.Outcome < protocol.Confirmed || got.Outcome > protocol.Delayed {
			t.Errorf("outcome %d does not exist", got.Outcome)
		}
		if got.Outcome == protocol.Delayed && (got.RetryAfter < time.Second || got.RetryAfter > maxDelay) {
			t.Errorf("a wait of %v", got.RetryAfter)
		}
		if !utf8.ValidString(got.Reason) || len(got.Reason) > protocol.MaxReasonBytes {
			t.Errorf("reason %q", got.Reason)
		}
	})
}

// FuzzAttribute writes any text as an attribute: the header that comes out is printable and holds no more than one line.
func FuzzAttribute(f *testing.F) {
	for _, text := range []string{"", "plain", "a b", "ünï", "\x00\n\"%", "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range []byte(Attribute(text)) {
			if c < ' ' || c > '~' {
				t.Errorf("%q became %q", text, Attribute(text))
			}
		}
	})
}
