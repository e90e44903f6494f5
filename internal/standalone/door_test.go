package standalone

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// opened is a door to a flow that says what it is asked with.
func opened(t *testing.T, open bool) (*door, *http.Client) {
	t.Helper()
	flow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	socket := filepath.Join(t.TempDir(), "s")
	d, err := openDoor(map[string]http.Handler{"f": flow}, "right", "/run/token", socket, "127.0.0.1:0", open)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.run(ctx); err != nil {
			t.Error(err)
		}
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasPrefix(address, "socket") {
			network, address = "unix", socket
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}}
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return d, client
}

func TestDoor(t *testing.T) {
	for name, c := range map[string]struct {
		open              bool
		path, token, host string
		socket            bool
		origin            string
		want              int
	}{
		"the socket needs no token":        {socket: true, path: "/v1/flows/f/jobs", want: 200},
		"a wrong token on the socket":      {socket: true, path: "/v1/flows/f/jobs", token: "wrong", want: 200},
		"no token":                         {path: "/v1/flows/f/jobs", want: 401},
		"the token":                        {path: "/v1/flows/f/jobs", token: "right", want: 200},
		"a wrong token":                    {path: "/v1/flows/f/jobs", token: "wrong", want: 401},
		"another flow":                     {path: "/v1/flows/g/jobs", token: "right", want: 404},
		"no flow":                          {path: "/", token: "right", want: 404},
		"open":                             {open: true, path: "/v1/flows/f/jobs", want: 200},
		"open, by the name of the machine": {open: true, path: "/v1/flows/f/jobs", host: "localhost:80", want: 200},
		"open, for another site's page":    {open: true, path: "/v1/flows/f/jobs", origin: "https://evil.example", want: 403},
		"open, for a name that was bent":   {open: true, path: "/v1/flows/f/jobs", host: "evil.example", want: 403},
	} {
		t.Run(name, func(t *testing.T) {
			d, client := opened(t, c.open)
			base := "http://" + d.address
			if c.socket {
				base = "http://socket"
			}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+c.path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.Host = c.host
			if c.token != "" {
				request.Header.Set("Authorization", "Bearer "+c.token)
			}
			if c.origin != "" {
				request.Header.Set("Origin", c.origin)
			}
			answer, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != c.want {
				t.Errorf("answered %d, want %d", answer.StatusCode, c.want)
			}
		})
	}
}

func TestDoorStaysOnThisMachine(t *testing.T) {
	if _, err := openDoor(nil, "x", "y", filepath.Join(t.TempDir(), "s"), "0.0.0.0:0", false); err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("listens everywhere: %v", err)
	}
}

func TestInvitationIsFitForAShell(t *testing.T) {
	d := &door{socket: "/tmp/my data/it's/s", address: "127.0.0.1:1"}
	lines := strings.Join(d.invitation("f", "/run/token", false), "\n")
	for _, want := range []string{`--unix-socket '/tmp/my data/it'\''s/s' `, `Bearer $(cat /run/token)`, "http://127.0.0.1:1/v1/flows/f/jobs"} {
		if !strings.Contains(lines, want) {
			t.Errorf("%s\nlacks %s", lines, want)
		}
	}
}
