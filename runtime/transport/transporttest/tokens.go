package transporttest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// Tokens is an Authenticator that believes "pod:<uid>" to be the worker pod with that UID and "user:<name>" to be a submitter, and
// "member:<name>" to be another producer of the flow, unless told otherwise by Refuse.
type Tokens struct {
	mu      sync.Mutex
	refused error
}

// Refuse makes every check fail with err, until it is called with nil.
func (a *Tokens) Refuse(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = err
}

func (a *Tokens) check(token, prefix string) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused != nil {
		return "", a.refused
	}
	name, ok := strings.CutPrefix(token, prefix)
	if !ok {
		return "", &transport.Refusal{Code: protocol.RefusedIdentity, Label: transport.LabelTokenInvalid, Reason: "no such token"}
	}
	return name, nil
}

// AuthenticateWorker implements transport.Authenticator.
func (a *Tokens) AuthenticateWorker(_ context.Context, token string) (delivery.Worker, error) {
	uid, err := a.check(token, "pod:")
	return delivery.Worker{PodUID: uid, PodName: "pod-" + uid, Pool: "pool"}, err
}

// AuthenticateSubmitter implements transport.Authenticator.
func (a *Tokens) AuthenticateSubmitter(_ context.Context, token, _ string) (transport.Submitter, error) {
	if name, err := a.check(token, "member:"); err == nil {
		return transport.Submitter{Subject: name, Member: true}, nil
	}
	name, err := a.check(token, "user:")
	return transport.Submitter{Subject: name}, err
}

// TokenFile writes a token into a file.
func TokenFile(t testing.TB, token string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
