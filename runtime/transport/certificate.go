package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// Certificate serves a key pair from two files and follows their replacement: the files are looked at on every handshake,
// which costs two stats and needs no watcher. While a replacement is half done the pair in memory stays in force.
type Certificate struct {
	certFile, keyFile string

	mu     sync.Mutex
	pair   *tls.Certificate
	seen   [2]stamp
	failed error
	// failures counts how often the newest files could not be used.
	failures uint64
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
	if err != nil {
		c.failures++
	}
	if c.pair == nil {
		return nil, fmt.Errorf("loading the certificate %s: %w", c.certFile, err)
	}
	return c.pair, nil
}

// Err looks at the files and returns why the newest could not be used, or nil.
func (c *Certificate) Err() error {
	// Where there is no pair at all, NewCertificate has failed.
	_, _ = c.current()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// Failures is how often the newest files could not be used when they were looked at.
func (c *Certificate) Failures() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failures
}

// Expires looks at the files and returns when what is served expires.
func (c *Certificate) Expires() time.Time {
	pair, err := c.current()
	if err != nil {
		return time.Time{}
	}
	return pair.Leaf.NotAfter
}

const (
	followEvery = 10 * time.Second
	// complainEvery is how many looks there are from one word about files that cannot be used to the next.
	complainEvery = int(time.Minute / followEvery)
)

// Follow looks at the files until ctx ends, whether anybody connects or not, and logs what comes of it: each new certificate, and once a
// minute that the newest files cannot be used.
func (c *Certificate) Follow(ctx context.Context, log logr.Logger) {
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	served, _ := c.current()
	quiet := 0 // looks until the next complaint
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		quiet--
		if err := c.Err(); err == nil {
			quiet = 0
		} else if quiet <= 0 {
			log.Error(err, "Cannot use the newest certificate files: the pair before them serves", "certificate", c.certFile, "expires", c.Expires())
			quiet = complainEvery
		}
		if now, err := c.current(); err == nil && now != served {
			log.Info("Serving with a new certificate", "certificate", c.certFile, "expires", now.Leaf.NotAfter, "issuer", now.Leaf.Issuer.CommonName)
			served = now
		}
	}
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
// caller is the operator. The CA file, see OperatorCA, is read on every handshake.
func MutualServerTLS(c *Certificate, caFile, commonName string) *tls.Config {
	base := ServerTLS(c)
	base.ClientAuth = tls.RequireAnyClientCert
	base.VerifyConnection = func(state tls.ConnectionState) error {
		if err := verify(state, OperatorCA(caFile), "", x509.ExtKeyUsageClientAuth); err != nil {
			return err
		}
		if got := state.PeerCertificates[0].Subject.CommonName; got != commonName {
			return fmt.Errorf("client certificate of %q, want %q", got, commonName)
		}
		return nil
	}
	return base
}

// OperatorCA is the file that verifies the operator. It is beside caFile: the authorities there may be of an issuer that gives certificates
// to others too. Where it is not, an older operator wrote the bundle, or there is no operator, and caFile is all there is.
func OperatorCA(caFile string) string {
	narrow := filepath.Join(filepath.Dir(caFile), runtimeconfig.OperatorCAKey)
	if _, err := os.Stat(narrow); errors.Is(err, fs.ErrNotExist) {
		return caFile
	}
	return narrow
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

// Bundle is what a CA bundle holds.
type Bundle struct {
	Certificates int
	// Expires is when the last of them does.
	Expires time.Time
}

// ReadBundle reads the CA bundle in a file.
func ReadBundle(caFile string) (b Bundle, err error) {
	rest, err := os.ReadFile(caFile)
	if err != nil {
		return b, fmt.Errorf("reading the CA bundle: %w", err)
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return b, nil
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue // as AppendCertsFromPEM does
		}
		b.Certificates++
		if certificate.NotAfter.After(b.Expires) {
			b.Expires = certificate.NotAfter
		}
	}
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
