package workpulling

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/sharedsecret"
	"github.com/workpulling/workpulling/runtime/transport"
)

// Identity says how a worker or client proves who it is, and how it knows the producer. The zero value stands for PodIdentity in a pod,
// and for nothing elsewhere: then a connection is refused with ErrNoIdentity.
type Identity struct {
	// Name is who a worker is: in Kubernetes the UID of its pod, elsewhere any name that no other live worker of the flow has.
	Name string
	// CAFile is a bundle in PEM that verifies the producer's certificate. It is read for every connection.
	CAFile string
	// ServerName is the name in that certificate, for flows that do not say; where neither does, it is the host of the address.
	ServerName string
	// Token returns the bearer token; it is called for every connection.
	Token func(ctx context.Context) (string, error)
}

// SharedSecret is the identity of a run outside of Kubernetes. dir is the directory that the producer has made (see
// ProducerOptions.SharedSecret), or a copy of its files ca.crt and secret; it is read for every connection, so that it may be made later.
// name is 1…128 letters, digits, dots, dashes and underscores; where it is empty, one is made from the host's.
func SharedSecret(dir, name string) Identity {
	if name == "" {
		name = madeUpName()
	}
	return Identity{
		Name: name, CAFile: filepath.Join(dir, sharedsecret.CAFile), ServerName: sharedsecret.ServerName,
		Token: func(context.Context) (string, error) { return sharedsecret.Dir(dir).Token(name) },
	}
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9-]+`)

func madeUpName() string {
	host, _ := os.Hostname() // any name will do
	host = strings.Trim(notInNames.ReplaceAllString(host, "-"), "-")
	return "w" + host[:min(len(host), 60)] + "-" + strings.ToLower(rand.Text()[:10])
}

// PodIdentity is what the operator mounts into the runtime's container of a pod: the token of audience workpulling.dev, the CA bundle, and
// the pod's UID in the environment variable POD_UID.
func PodIdentity() Identity { return podIdentity(runtimeconfig.Place{}) }

func podIdentity(place runtimeconfig.Place) Identity {
	tokenFile := place.Path(runtimeconfig.TokenFile)
	return Identity{
		Name: os.Getenv(runtimeconfig.EnvPodUID), CAFile: place.Path(runtimeconfig.CAFile),
		Token: func(context.Context) (string, error) {
			raw, err := os.ReadFile(tokenFile)
			if err != nil {
				return "", fmt.Errorf("reading the token: %w", err)
			}
			return strings.TrimSpace(string(raw)), nil
		},
	}
}

// orPod is the identity, or the pod's where there is none and there is such a pod.
func (i Identity) orPod(place runtimeconfig.Place) (Identity, error) {
	switch {
	case i.Token != nil && i.CAFile != "":
		return i, nil
	case i.Token != nil || i.CAFile != "":
		return Identity{}, fmt.Errorf("%w: it needs both a token and a CA bundle", ErrNoIdentity)
	}
	if _, err := os.Stat(place.Path(runtimeconfig.TokenFile)); err != nil {
		return Identity{}, ErrNoIdentity
	}
	return podIdentity(place), nil
}

// peer is the producer of a flow as this identity meets it. Its name is always verified.
func (i Identity) peer(flow Flow) (transport.Peer, error) {
	host, _, err := net.SplitHostPort(flow.Address)
	if err != nil {
		return transport.Peer{}, fmt.Errorf("workpulling: the flow %q is not at host:port: %w", flow.Name, err)
	}
	name := cmp.Or(flow.ServerName, i.ServerName, host)
	if name == "" {
		return transport.Peer{}, fmt.Errorf("workpulling: neither the flow %q nor the identity names the server", flow.Name)
	}
	return transport.Peer{Address: flow.Address, TLS: transport.ClientTLS(i.CAFile, name), Token: i.Token}, nil
}
