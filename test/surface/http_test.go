package surface

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/workpulling/workpulling/sidecar/intake"
)

// pages are the paths of each HTTP listener, those included that nobody serves.
func pages(at listener) (paths []string) {
	seen := map[string]bool{}
	for _, r := range table {
		if _, path, isHTTP := strings.Cut(r.what, " "); r.at == at && isHTTP && !seen[path] {
			seen[path] = true
			paths = append(paths, path)
		}
	}
	return append(paths, "/", "/debug/pprof/", "/v1/flows/{flow}", "/v1/flows/{flow}/jobs/{id}/payload")
}

// httpListeners are those that the table is tried on over HTTP.
var httpListeners = []listener{producerIntake, intakeSocket, producerHealth, producerMetrics, workerHealth, workerMetrics, drainSocket}

// caller calls one listener as one credential.
type caller struct {
	w      *world
	at     listener
	as     credential
	client *http.Client
}

func (w *world) caller(at listener, as credential) *caller {
	w.t.Helper()
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		if strings.HasSuffix(w.at[at], ".sock") {
			return new(net.Dialer).DialContext(ctx, "unix", w.at[at])
		}
		return (&net.Dialer{LocalAddr: as.from()}).DialContext(ctx, network, w.at[at])
	}
	transport := &http.Transport{DialContext: dial, TLSClientConfig: w.clientTLS(as, producerHost), ForceAttemptHTTP2: true}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &caller{w: w, at: at, as: as, client: &http.Client{Transport: transport}}
}

// call is what becomes of a request, and its status.
func (c *caller) call(method, path string) (outcome string, status int) {
	c.w.t.Helper()
	scheme := "http"
	if c.at == producerIntake && c.as != plain {
		scheme = "https"
	}
	path = strings.NewReplacer("{flow}", flowName, "{id}", "some", "{sequence}", "1").Replace(path)
	if path == "/drain" {
		path += "?timeoutSeconds=never" // or it would drain
	}
	request, err := http.NewRequestWithContext(c.w.t.Context(), method, scheme+"://"+producerHost+path, http.NoBody)
	if err != nil {
		c.w.t.Fatal(err)
	}
	if token := c.w.bearer(c.as); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	request.Header.Set("Idempotency-Key", "key")
	response, err := c.client.Do(request)
	switch {
	case err != nil && c.at == producerIntake && c.as == plain:
		return noTLS, 0 // the end of the connection may come before the answer
	case err != nil:
		c.w.t.Errorf("%s, %s %s as %s: %v", c.at, method, path, c.as, err)
		return "", 0
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return named(response.StatusCode, body), response.StatusCode
}

// named is the outcome that an answer tells of.
func named(status int, body []byte) string {
	var problem struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(body, &problem) // a plain answer is none
	slug := strings.TrimPrefix(problem.Type, intake.ProblemBase)
	switch {
	case strings.Contains(string(body), "HTTP request to an HTTPS server"):
		return noTLS
	case status == http.StatusUnauthorized, status == http.StatusForbidden, strings.HasSuffix(slug, "-unchecked"):
		return slug
	case status == http.StatusMethodNotAllowed, status == http.StatusNotFound && (slug == "" || slug == "no-such-path"):
		return absent
	}
	return served
}

// try tries every verb on every path of the listener.
func (c *caller) try(t *testing.T) {
	t.Helper()
	for _, path := range pages(c.at) {
		statuses := map[string]int{}
		for _, method := range []string{"GET", "POST", "DELETE", "HEAD", "PUT", "PATCH", "OPTIONS", "TRACE"} {
			want := absent
			r := find(c.at, method+" "+path)
			if r == nil { // the names of deeds are taken for sequences where no deed is
				r = find(c.at, method+" "+strings.NewReplacer("letters/redrive", "letters/{sequence}", "letters/drop", "letters/{sequence}").Replace(path))
			}
			if r != nil {
				want = r.outcome(t, c.as)
			}
			if c.at == producerIntake && c.as == plain {
				want = noTLS
			}
			got, status := c.call(method, path)
			statuses[method] = status
			switch {
			case method == "HEAD": // an answer without a body
				if status != statuses["GET"] && c.as != plain {
					t.Errorf("%s: HEAD %s as %s is %d, and GET %d", c.at, path, c.as, status, statuses["GET"])
				}
			case got != want:
				t.Errorf("%s: %s %s as %s is %s (%d), want %s", c.at, method, path, c.as, got, status, want)
			}
		}
	}
}
