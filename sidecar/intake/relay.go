package intake

import (
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"time"
)

// Route says where the jobs of a flow are taken at the moment.
type Route struct {
	// Here: in this process.
	Here bool
	// Address is host:port of the intake that takes them elsewhere; empty where none is known.
	Address string
}

// headerHop marks a request that a standby has passed on, which no other standby passes on again.
const headerHop = "Workpulling-Hop"

// Bounds of passing a request on.
const (
	// relayPatience is how long a request waits for somebody to be active: about as long as a planned takeover.
	relayPatience = 2 * time.Second
	relayPoll     = 50 * time.Millisecond
	relayDial     = 3 * time.Second
)

// Relay passes requests on to the active producer, one hop. It adds nothing to them but the mark of the hop, and judges nobody: the
// caller's own token goes along, and who answers has to prove its name.
type Relay struct {
	// Route says where to; it may change at any time.
	Route func() Route
	// TokenFile holds this pod's own token, which goes along with what the app beside submits over the socket.
	TokenFile string
	transport *http.Transport
}

// NewRelay returns a Relay that verifies the intake it passes requests on to as verified by client, such as transport.ClientTLS.
func NewRelay(route func() Route, tokenFile string, client *http.Transport) *Relay {
	client = client.Clone()
	client.ForceAttemptHTTP2 = true
	client.Proxy = nil
	client.DialContext = (&net.Dialer{Timeout: relayDial}).DialContext
	client.TLSHandshakeTimeout = relayDial
	client.IdleConnTimeout = time.Minute
	client.DisableCompression = true
	return &Relay{Route: route, TokenFile: tokenFile, transport: client}
}

// Close ends idle connections.
func (r *Relay) Close() { r.transport.CloseIdleConnections() }

// settle waits a moment for a place where jobs are taken.
func (r *Relay) settle(ctx context.Context) Route {
	ctx, cancel := context.WithTimeout(ctx, relayPatience)
	defer cancel()
	ticker := time.NewTicker(relayPoll)
	defer ticker.Stop()
	for {
		if to := r.Route(); to.Here || to.Address != "" {
			return to
		}
		select {
		case <-ctx.Done():
			return Route{}
		case <-ticker.C:
		}
	}
}

// relayPause is when to try again what could not be passed on.
const relayPause = time.Second

func noActive(detail string) problem { return kindNoActive.because(detail).after(relayPause) }

// lost is the answer where the active producer gave none.
func lost() problem {
	return kindUnavailable.because(
		"The active producer did not answer. The job may or may not be stored: repeat the request with the same id, which is safe.").after(relayPause)
}

// elsewhere passes the request on if this process stands by, and says whether it has answered. credential, which may be nil, replaces
// what the caller presents.
func (i *Intake) elsewhere(w http.ResponseWriter, r *http.Request, credential func(http.Header) error) bool {
	relay := i.options.Relay
	if relay == nil {
		return false
	}
	to := relay.Route()
	if to.Here {
		return false
	}
	if r.Header.Get(headerHop) != "" {
		noActive("The request was passed on to a producer that stands by as well. Nothing was stored: repeat it after the time in Retry-After.").write(w)
		return true
	}
	if to.Address == "" {
		if to = relay.settle(r.Context()); to.Here {
			return false
		}
	}
	if to.Address == "" {
		noActive(kindNoActive.Help).write(w)
		return true
	}
	if wait, err := waitOf(r.URL.Query()); err == nil {
		extendDeadline(w, wait+i.options.StoreTimeout+relayDial)
	}
	if mediaType(r.Header) == typeLines {
		w = i.rolling(w)
	}
	said := http.Header{}
	said.Set(headerHop, "1")
	if credential != nil {
		if err := credential(said); err != nil {
			i.unpassed(err).write(w)
			return true
		}
	}
	relay.pass(w, r, to.Address, said)
	return true
}

// pass is the hop. said is what this process says of the request, in place of what the caller says.
func (r *Relay) pass(w http.ResponseWriter, from *http.Request, address string, said http.Header) {
	proxy := httputil.ReverseProxy{
		Transport: r.transport,
		// It is said last: what a caller names in Connection is taken away before, and must not be what makes it less than this pod.
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "https", Host: address})
			p.Out.Header.Del(headerNeighbour) // only we say that
			maps.Copy(p.Out.Header, said)
		},
		ErrorLog:     log.New(io.Discard, "", 0), // an active producer that went away is no news, and is answered
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { lost().write(w) },
	}
	proxy.ServeHTTP(w, from)
}

// ownToken makes this pod the caller, for the app beside.
func (r *Relay) ownToken(header http.Header) error {
	raw, err := os.ReadFile(r.TokenFile)
	if err != nil {
		return fmt.Errorf("reading the token: %w", err)
	}
	header.Set("Authorization", "Bearer "+strings.TrimSpace(string(raw)))
	return nil
}
