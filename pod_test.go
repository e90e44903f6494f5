package workpulling

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// pod is a directory with what the operator mounts.
func pod(t *testing.T, document runtimeconfig.Worker) runtimeconfig.Place {
	t.Helper()
	place := runtimeconfig.Place{Root: t.TempDir()}
	text, _, err := runtimeconfig.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{runtimeconfig.ConfigFile: text, runtimeconfig.TokenFile: "token\n"} {
		if err := os.MkdirAll(filepath.Dir(place.Path(file)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(place.Path(file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(runtimeconfig.EnvPodUID, "uid-1")
	return place
}

// Without options a worker is what the pod says; what an option says stands.
func TestOptionsFromThePod(t *testing.T) {
	place := pod(t, runtimeconfig.Worker{
		Flows: []runtimeconfig.WorkerFlow{
			{Name: "a", ProducerAddress: "a-producer.shop.svc:9443", ProducerHost: "a-producer.shop.svc"},
			{Name: "b", ProducerAddress: "b-producer.shop.svc:9443", ProducerHost: "b-producer.shop.svc"},
		},
		Window: 20, Concurrency: 3, HandlerTimeoutSec: 60,
	})
	options := WorkerOptions{Concurrency: 7}
	if err := options.complete(place); err != nil {
		t.Fatal(err)
	}
	want := []Flow{FlowInNamespace("a", "shop"), FlowInNamespace("b", "shop")}
	if diff := cmp.Diff(want, options.Flows); diff != "" {
		t.Errorf("flows (-want +got):\n%s", diff)
	}
	config := options.config()
	if config.Window != 20 || config.Concurrency != 7 || config.HandlerTimeout != time.Minute {
		t.Errorf("window %d, concurrency %d, timeout %s", config.Window, config.Concurrency, config.HandlerTimeout)
	}
	if options.Identity.Name != "uid-1" || options.Identity.CAFile != place.Path(runtimeconfig.CAFile) {
		t.Errorf("identity %q with the bundle %s", options.Identity.Name, options.Identity.CAFile)
	}
	if token, err := options.Identity.Token(t.Context()); token != "token" || err != nil {
		t.Errorf("token %q, %v", token, err)
	}
	if peer, err := options.Identity.peer(options.Flows[1]); err != nil || peer.TLS.ServerName != "b-producer.shop.svc" {
		t.Errorf("verifies %+v, %v", peer.TLS, err)
	}
}

// The name of a server is always verified, whoever gives it.
func TestServerName(t *testing.T) {
	for _, c := range []struct {
		flow, identity, address string
		want                    string // empty: refused
	}{
		{"flow", "identity", "host:1", "flow"},
		{"", "identity", "host:1", "identity"},
		{"", "", "host:1", "host"},
		{"", "", ":1", ""},
		{"flow", "", "host", ""},
	} {
		peer, err := Identity{CAFile: "ca.crt", ServerName: c.identity}.peer(Flow{Address: c.address, ServerName: c.flow})
		if (err == nil) != (c.want != "") || err == nil && peer.TLS.ServerName != c.want {
			t.Errorf("%+v: %+v, %v", c, peer.TLS, err)
		}
	}
}

func TestHalfAnIdentityIsNone(t *testing.T) {
	place := pod(t, runtimeconfig.Worker{})
	if _, err := (Identity{CAFile: "ca.crt"}).orPod(place); !errors.Is(err, ErrNoIdentity) {
		t.Errorf("a bundle without a token: %v", err)
	}
}

func TestBrokenDocumentOfThePod(t *testing.T) {
	place := pod(t, runtimeconfig.Worker{})
	if err := os.WriteFile(place.Path(runtimeconfig.ConfigFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := new(WorkerOptions).complete(place); err == nil {
		t.Error("took half a document")
	}
}

// Elsewhere nothing stands in for an identity.
func TestNoPodNoIdentity(t *testing.T) {
	_, err := Identity{}.orPod(runtimeconfig.Place{Root: t.TempDir()})
	if !errors.Is(err, ErrNoIdentity) {
		t.Errorf("got %v", err)
	}
}

func TestMadeUpNames(t *testing.T) {
	if a, b := SharedSecret("x", "").Name, SharedSecret("x", "").Name; a == b {
		t.Errorf("the same name twice: %s", a)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZ\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := SharedSecret(dir, "").Token(t.Context()); err != nil {
		t.Errorf("a made-up name is refused: %v", err)
	}
}
