package intake_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/workpulling/workpulling/sidecar/intake"
)

// standby puts a process that stands by in front of the world: it passes everything on.
func (w *world) standby(t *testing.T) *httptest.Server {
	t.Helper()
	active := httptest.NewUnstartedServer(w.server.Config.Handler)
	active.EnableHTTP2 = true
	active.StartTLS()
	options := w.options
	route := intake.Route{Address: active.Listener.Addr().String()}
	options.Relay = intake.NewRelay(func() intake.Route { return route }, "", &http.Transport{
		TLSClientConfig: active.Client().Transport.(*http.Transport).TLSClientConfig,
	})
	standing := httptest.NewServer(intake.New(options).Handler())
	t.Cleanup(func() {
		standing.Close()
		options.Relay.Close()
		active.Close()
	})
	return standing
}

// A stream that is passed on is a conversation too, and ends as one.
func TestStreamIsPassedOnLineByLine(t *testing.T) {
	w := newWorld(t, nil)
	c := w.converse(t, http.DefaultClient, w.standby(t).URL, "")
	for n, status := range []int{201, 200, 422} {
		c.say(eventLine("1", []string{"x", "x", "y"}[n]), "\n")
		c.hearStatus(n+1, status)
	}
	c.send.Close()
	if end := c.hear(); end != nil {
		t.Errorf("behind the end: %+v", end)
	}
}
