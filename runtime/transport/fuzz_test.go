package transport_test

import (
	"strings"
	"testing"

	"github.com/workpulling/workpulling/runtime/transport"
)

// FuzzParseBearer reads any Authorization header: it is a token of one line, or a refusal.
func FuzzParseBearer(f *testing.F) {
	for _, value := range []string{"", "Bearer", "Bearer x", "bearer  x ", "Basic x", "Bearer " + strings.Repeat("x", 1<<17)} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		token, err := transport.ParseBearer(value)
		if (err == nil) != (token != "") {
			t.Errorf("%q is %q, %v", value, token, err)
		}
		if err == nil {
			return
		}
		want := transport.LabelTokenMissing
		if scheme, token, _ := strings.Cut(value, " "); strings.EqualFold(scheme, "Bearer") && strings.TrimSpace(token) != "" {
			want = transport.LabelTokenInvalid // too long for one
		}
		if got := transport.AsRefusal(err).Label; got != want {
			t.Errorf("%q is refused as %s, want %s", value, got, want)
		}
	})
}
