package standalone

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/workpulling/workpulling/sidecar/intake"
)

// door is the way in for the jobs of all flows: a loopback address that asks for the token, and a Unix socket that only the owner of its
// directory can reach and that asks for none.
type door struct {
	flows   map[string]http.Handler // the intakes, which ask for the token themselves
	token   string
	servers []*intake.Server
	// socket and address are where it listens; address is empty without one.
	socket, address string
}

func openDoor(flows map[string]http.Handler, token, tokenFile, socket, listen string, open bool) (*door, error) {
	d := &door{flows: flows, token: token, socket: socket}
	beside, err := intake.ListenUnix(socket, d.trusting(d.route()))
	if err != nil {
		return nil, fmt.Errorf("%w (the path of a socket is limited to about 100 bytes: a shorter --data helps)", err)
	}
	d.servers = append(d.servers, beside)
	if listen == NoListen {
		return d, nil
	}
	way := asking(d.route(), tokenFile)
	if open {
		way = sameMachine(d.trusting(d.route()))
	}
	server, err := intake.ListenLoopback(listen, way)
	if err != nil {
		return nil, fmt.Errorf("%w; choose another address with --listen", err)
	}
	d.servers, d.address = append(d.servers, server), server.Address()
	return d, nil
}

// run serves until ctx ends.
func (d *door) run(ctx context.Context) error {
	servers, ctx := errgroup.WithContext(ctx)
	for _, server := range d.servers {
		servers.Go(func() error { return server.Run(ctx) })
	}
	return servers.Wait()
}

// route finds the intake of a flow.
func (d *door) route() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		problem(w, http.StatusNotFound, "no-such-path", "No such path", "the paths of a flow begin with /v1/flows/<flow>/")
	})
	mux.HandleFunc("/v1/flows/{flow}/", func(w http.ResponseWriter, r *http.Request) {
		if flow, ok := d.flows[r.PathValue("flow")]; ok {
			flow.ServeHTTP(w, r)
			return
		}
		problem(w, http.StatusNotFound, "unknown-flow", "No such flow here", "this run has "+orElse(strings.Join(d.names(), ", "), "none"))
	})
	return mux
}

func (d *door) names() (names []string) {
	for name := range d.flows {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// trusting presents the token for those who have come through a way that they could not have come through without being trusted.
func (d *door) trusting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+d.token)
		next.ServeHTTP(w, r)
	})
}

// sameMachine refuses what a browser sends for a page of somewhere else: without a token that is the only difference to the person at
// the machine.
func sameMachine(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		ip := net.ParseIP(strings.Trim(host, "[]"))
		if host != "localhost" && (ip == nil || !ip.IsLoopback()) || r.Header.Get("Origin") != "" {
			problem(w, http.StatusForbidden, "forbidden", "Not for web pages", "without a token this intake answers programs on this machine only")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// asking says where the token is to those who bring none; whether it is the right one is for the flow to say.
func asking(next http.Handler, tokenFile string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			problem(w, http.StatusUnauthorized, "token-missing", "The token of this run is missing",
				`present what is in the file `+tokenFile+` as "Authorization: Bearer"; the Unix socket needs none`)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// problem answers with problem details, of a kind that the intake of a flow has too.
func problem(w http.ResponseWriter, status int, kind, title, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type": intake.ProblemBase + kind, "status": status, "title": title, "detail": detail,
	}) // the caller may be gone
}

// invitation says how to submit to a flow.
func (d *door) invitation(flow, tokenFile string, open bool) []string {
	job := "-H 'Idempotency-Key: 1' --data-binary 'hello'"
	lines := []string{fmt.Sprintf("curl --unix-socket %s http://localhost/v1/flows/%s/jobs %s", quoted(d.socket), flow, job)}
	if d.address != "" {
		token := ` -H "Authorization: Bearer $(cat ` + quoted(tokenFile) + `)"`
		if open {
			token = ""
		}
		lines = append(lines, fmt.Sprintf("curl http://%s/v1/flows/%s/jobs%s %s", d.address, flow, token, job))
	}
	return lines
}

// quoted makes a path one word of a shell.
func quoted(path string) string {
	path = filepath.ToSlash(path)
	if strings.ContainsFunc(path, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./", r)
	}) {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}
