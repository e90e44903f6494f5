package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Certificate serves a key pair from two files and follows their replacement: the files are looked at on every handshake,
// which costs two stats and needs no watcher. While a replacement is half done the pair in memory stays in force.
type Certificate struct {
	certFile, keyFile string

	mu     sync.Mutex
	pair   *tls.Certificate
	seen   [2]stamp
	failed error
}

// stamp tells versions of a file apart.
type stamp struct {
	changed time.Time
	size    int64
}

// NewCertificate returns the pair of the two PEM files, which have to be there.
func NewCertificate(certFile, keyFile string) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile}
	if _, err := c.current(); err != nil {
		return nil, err
	}
	return c, nil
}

// current returns the newest pair that could be read.
func (c *Certificate) current() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen, err := stamps(c.certFile, c.keyFile)
	if err == nil && c.pair != nil && seen == c.seen {
		return c.pair, nil
	}
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(c.certFile, c.keyFile); err == nil {
			c.pair, c.seen = &pair, seen
		}
	}
	c.failed = err
	if c.pair == nil {
		return nil, fmt.Errorf("loading the certificate %s: %w", c.certFile, err)
	}
	return c.pair, nil
}

// Err returns why the newest files could not be used, or nil.
func (c *Certificate) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

func stamps(first, second string) (out [2]stamp, err error) {
	for i, name := range []string{first, second} {
		info, err := os.Stat(name)
		if err != nil {
			return out, err
		}
		out[i] = stamp{info.ModTime(), info.Size()}
	}
	return out, nil
}

// ServerTLS is a server's configuration without client certificates: peers prove themselves with tokens.
func ServerTLS(c *Certificate) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current() },
	}
}

// MutualServerTLS asks for a client certificate of the CA in caFile with the given subject common name, for servers whose only
// caller is the operator. The CA file is read on every handshake.
func MutualServerTLS(c *Certificate, caFile, commonName string) *tls.Config {
	base := ServerTLS(c)
	base.ClientAuth = tls.RequireAnyClientCert
	base.VerifyConnection = func(state tls.ConnectionState) error {
		if err := verify(state, caFile, "", x509.ExtKeyUsageClientAuth); err != nil {
			return err
		}
		if got := state.PeerCertificates[0].Subject.CommonName; got != commonName {
			return fmt.Errorf("client certificate of %q, want %q", got, commonName)
		}
		return nil
	}
	return base
}

// ClientTLS verifies serverName against the CA bundle in caFile, which is read on every handshake.
func ClientTLS(caFile, serverName string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: serverName,
		// The usual verification reads its roots once; VerifyConnection below does the same with the bundle of this moment.
		InsecureSkipVerify: true, //nolint:gosec // see VerifyConnection
		VerifyConnection: func(state tls.ConnectionState) error {
			return verify(state, caFile, serverName, x509.ExtKeyUsageServerAuth)
		},
	}
}

func verify(state tls.ConnectionState, caFile, serverName string, usage x509.ExtKeyUsage) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the peer presented no certificate")
	}
	roots, err := loadRoots(caFile)
	if err != nil {
		return err
	}
	between := x509.NewCertPool()
	for _, certificate := range state.PeerCertificates[1:] {
		between.AddCert(certificate)
	}
	_, err = state.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, DNSName: serverName, KeyUsages: []x509.ExtKeyUsage{usage},
	})
	return err
}

func loadRoots(caFile string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("reading the CA bundle: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the CA bundle %s holds no certificate", caFile)
	}
	return roots, nil
}
