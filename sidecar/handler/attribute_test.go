package handler_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/sidecar/handler"
)

// What an app decodes, as CloudEvents says, is what was stored; and no value breaks the request, which would fail the job.
func TestAttributesSurviveTheirWay(t *testing.T) {
	var got http.Header
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer app.Close()
	h := handler.New(t.Context(), "/f", target(t, app.Listener.Addr().String()), nil)
	for value, encoded := range map[string]string{
		"plain/|~!":   "plain/|~!",
		"100%":        "100%25",
		"%41":         "%2541",
		`say "a b"`:   "say%20%22a%20b%22",
		" a ":         "%20a%20",
		"Grüße, 世界 €": "Gr%C3%BC%C3%9Fe,%20%E4%B8%96%E7%95%8C%20%E2%82%AC",
		"tab\there":   "tab%09here",
	} {
		d := delivery()
		d.Job.MessageID = value
		d.Job.Headers = map[string]string{"ce-subject": value}
		if result := h.Handle(t.Context(), d); result.Outcome != protocol.Confirmed {
			t.Errorf("%q: %+v", value, result)
			continue
		}
		for _, name := range []string{"Ce-Id", "Ce-Subject", handler.HeaderMessageID} {
			if got.Get(name) != encoded {
				t.Errorf("%s of %q is %q, want %q", name, value, got.Get(name), encoded)
			}
			if decoded, err := url.PathUnescape(got.Get(name)); err != nil || decoded != value {
				t.Errorf("%s decodes to %q, want %q (%v)", name, decoded, value, err)
			}
		}
	}
}
