package sharedsecret

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/workpulling/workpulling/runtime/transport"
)

// ServerName is the name in the certificate: clients verify it whatever address they dial.
const ServerName = "producer.run.workpulling.dev"

// Files of a directory. A worker or submitter needs CAFile and SecretFile, and must not get the other two where it is another machine.
const (
	CAFile     = "ca.crt"
	SecretFile = "secret"
	CertFile   = "tls.crt"
	KeyFile    = "tls.key"
)

// Dir is the path of a directory that holds the identity of one run. As a client's it may be filled later: its files are read for
// every connection.
type Dir string

// Make returns the directory at path, made with a fresh identity unless it holds one. It must not hold anything else. now dates the
// certificate, which is good for ten years; remove the directory for a new identity.
func Make(path string, now time.Time) (Dir, error) {
	dir := Dir(path)
	if _, err := os.Stat(dir.file(SecretFile)); err == nil {
		return dir, nil
	}
	if err := dir.fill(now); err != nil {
		if _, made := os.Stat(dir.file(SecretFile)); made == nil {
			return dir, nil // another process was faster
		}
		return "", fmt.Errorf("making the shared secret in %s: %w", path, err)
	}
	return dir, nil
}

// fill makes the whole directory under another name first, so that nobody ever sees half of it.
func (d Dir) fill(now time.Time) error {
	parent := filepath.Dir(filepath.Clean(string(d)))
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	next, err := os.MkdirTemp(parent, ".workpulling-secret-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(next)
	made, err := newCertificate(now)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		CAFile: made.authority, CertFile: made.certificate, KeyFile: made.key, SecretFile: []byte(rand.Text() + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(next, name), content, 0o600); err != nil {
			return err
		}
	}
	return os.Rename(next, string(d)) // fails where there is something already, unless it is an empty directory
}

func (d Dir) file(name string) string { return filepath.Join(string(d), name) }

// secret reads the secret.
func (d Dir) secret() (string, error) {
	raw, err := os.ReadFile(d.file(SecretFile))
	secret := strings.TrimSpace(string(raw))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s holds no shared secret yet: the producer makes it when it starts", d)
	case err != nil:
		return "", fmt.Errorf("reading the shared secret: %w", err)
	case len(secret) < minSecret:
		return "", fmt.Errorf("the shared secret in %s is shorter than %d characters", d, minSecret)
	}
	return secret, nil
}

// minSecret is the length of what Make makes: a shorter one was put there by somebody, and may be guessed.
const minSecret = 26

// ServerTLS is the configuration of a server of this run.
func (d Dir) ServerTLS() (*tls.Config, error) {
	certificate, err := transport.NewCertificate(d.file(CertFile), d.file(KeyFile))
	if err != nil {
		return nil, err
	}
	return transport.ServerTLS(certificate), nil
}

// ClientTLS is the configuration of a client of this run, whose CA is read on every handshake.
func (d Dir) ClientTLS() *tls.Config { return transport.ClientTLS(d.file(CAFile), ServerName) }
