package sharedsecret

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/transport"
)

func TestTokens(t *testing.T) {
	dir, other := made(t), made(t)
	authenticator, err := dir.Authenticator()
	if err != nil {
		t.Fatal(err)
	}
	token, foreign := tokenOf(t, dir, "worker-1"), tokenOf(t, other, "worker-1")
	secret, _, _ := strings.Cut(token, ".")
	for _, c := range []struct {
		name, token string
		want        string // empty: refused
	}{
		{"ours", token, "worker-1"},
		{"of another run", foreign, ""},
		{"nothing", "", ""},
		{"the name alone", ".worker-1", ""},
		{"the secret alone", secret, ""},
		{"an empty name", secret + ".", ""},
		{"a name with a space", secret + ".a b", ""},
		{"a prefix of the secret", secret[:10] + ".worker-1", ""},
		{"dots in a name", secret + ".a.b", "a.b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			worker, err := authenticator.AuthenticateWorker(t.Context(), c.token)
			submitter, submitErr := authenticator.AuthenticateSubmitter(t.Context(), c.token, "create")
			if worker.PodUID != c.want || submitter.Subject != c.want || (err == nil) != (c.want != "") || (submitErr == nil) != (c.want != "") {
				t.Errorf("worker %q, %v; submitter %q, %v; want %q", worker.PodUID, err, submitter.Subject, submitErr, c.want)
			}
			var refusal *transport.Refusal
			if err != nil && (!errors.As(err, &refusal) || strings.Contains(err.Error(), secret)) {
				t.Errorf("refused with %v", err)
			}
		})
	}
}

func TestNames(t *testing.T) {
	dir := made(t)
	for _, name := range []string{"", "-a", "a-", "a b", "ä", strings.Repeat("a", 129), "a\n"} {
		if token, err := dir.Token(name); err == nil {
			t.Errorf("name %q makes a token of %d bytes", name, len(token))
		}
	}
}

// A second Make finds what the first one made, also when many run at once, and nobody but the owner can read any of it.
func TestMakeMakesOneIdentity(t *testing.T) {
	path := filepath.Join(t.TempDir(), "parent", "run")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := Make(path, time.Now()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	first := tokenOf(t, Dir(path), "a")
	if again, err := Make(path, time.Now()); err != nil || tokenOf(t, again, "a") != first {
		t.Errorf("another Make: %v, or another secret", err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the directory: %v, %v", entries, err)
	}
	for _, name := range []string{"", CAFile, SecretFile, CertFile, KeyFile} {
		info, err := os.Stat(filepath.Join(path, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others may touch %q: %v", name, info.Mode())
		}
	}
}

func TestMakeRefusesADirectoryInUse(t *testing.T) {
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "queue.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Make(path, time.Now()); err == nil {
		t.Error("made an identity among other files")
	}
}

func TestAShortSecretIsRefused(t *testing.T) {
	dir := made(t)
	if err := os.WriteFile(dir.file(SecretFile), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Authenticator(); err == nil {
		t.Error("took a secret of six letters")
	}
}

// The client of a run meets its server; that of another run, which has the same name, does not.
func TestTLS(t *testing.T) {
	dir, other := made(t), made(t)
	server, err := dir.ServerTLS()
	if err != nil {
		t.Fatal(err)
	}
	if err := handshake(t, server, dir.ClientTLS()); err != nil {
		t.Errorf("the client of the run: %v", err)
	}
	if err := handshake(t, server, other.ClientTLS()); err == nil {
		t.Error("the client of another run believes this server")
	}
}

func handshake(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var serving sync.WaitGroup
	serving.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = tls.Server(conn, server).HandshakeContext(t.Context())
	})
	defer serving.Wait()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return tls.Client(conn, client).HandshakeContext(t.Context())
}

func TestWriteToken(t *testing.T) {
	dir, file := made(t), filepath.Join(t.TempDir(), "token")
	if err := dir.WriteToken(file, "w"); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	if err != nil || strings.TrimSpace(string(raw)) != tokenOf(t, dir, "w") {
		t.Errorf("the file holds %d bytes, %v", len(raw), err)
	}
}

func made(t *testing.T) Dir {
	t.Helper()
	dir, err := Make(filepath.Join(t.TempDir(), "run"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func tokenOf(t *testing.T, dir Dir, name string) string {
	t.Helper()
	token, err := dir.Token(name)
	if err != nil {
		t.Fatal(err)
	}
	return token
}
