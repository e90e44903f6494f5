package sharedsecret

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// nameFormat keeps a name fit for a header, a log line and a metric's label.
var nameFormat = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$`)

// CheckName returns an error unless name can be that of a worker or submitter: 1…128 letters, digits, dots, dashes and underscores, of
// which the first and the last are letters or digits.
func CheckName(name string) error {
	if !nameFormat.MatchString(name) {
		return fmt.Errorf("the name %q is not made of 1…128 letters, digits, dots, dashes and underscores between two letters or digits", name)
	}
	return nil
}

// Token is the bearer token of the worker or submitter with this name. A worker registers under its name, which is unique among the live
// workers of a flow.
func (d Dir) Token(name string) (string, error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	secret, err := d.secret()
	if err != nil {
		return "", err
	}
	return secret + "." + name, nil
}

// WriteToken writes Token into a file that nobody else can read, for a process that presents what is in a file.
func (d Dir) WriteToken(file, name string) error {
	token, err := d.Token(name)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(token+"\n"), 0o600)
}

// Authenticator returns the checks of a server of this run. The secret is read once.
func (d Dir) Authenticator() (*Authenticator, error) {
	secret, err := d.secret()
	if err != nil {
		return nil, err
	}
	return &Authenticator{sum: sha256.Sum256([]byte(secret))}, nil
}

// Authenticator believes every token that begins with the secret. It implements transport.Authenticator.
type Authenticator struct{ sum [sha256.Size]byte }

var _ transport.Authenticator = (*Authenticator)(nil)

// AuthenticateWorker returns a worker whose pod UID and pod name are the name in the token.
func (a *Authenticator) AuthenticateWorker(_ context.Context, token string) (delivery.Worker, error) {
	name, err := a.name(token)
	return delivery.Worker{PodUID: name, PodName: name}, err
}

// AuthenticateSubmitter allows every verb: the holder of the secret may do everything.
func (a *Authenticator) AuthenticateSubmitter(_ context.Context, token, _ string) (transport.Submitter, error) {
	name, err := a.name(token)
	return transport.Submitter{Subject: name}, err
}

// name checks the secret by its hash, in a time that depends on neither.
func (a *Authenticator) name(token string) (string, error) {
	secret, name, _ := strings.Cut(token, ".")
	sum := sha256.Sum256([]byte(secret))
	if subtle.ConstantTimeCompare(sum[:], a.sum[:]) != 1 {
		return "", invalid("this is not the secret of this run")
	}
	if CheckName(name) != nil {
		return "", invalid("the token names nobody")
	}
	return name, nil
}

func invalid(reason string) *transport.Refusal {
	return &transport.Refusal{Code: protocol.RefusedIdentity, Label: transport.LabelTokenInvalid, Reason: reason}
}
