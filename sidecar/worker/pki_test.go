package worker_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// pki is a certificate authority for one test.
type pki struct {
	dir    string
	caFile string
	cert   *x509.Certificate
	key    crypto.Signer
}

func newPKI(t *testing.T, dir string) *pki {
	t.Helper()
	key := newKey(t)
	cert, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "test"}, key)
	if err != nil {
		t.Fatal(err)
	}
	p := &pki{dir: dir, caFile: filepath.Join(dir, "ca.crt"), cert: cert, key: key}
	pem, err := certutil.EncodeCertificates(cert)
	if err != nil {
		t.Fatal(err)
	}
	write(t, p.caFile, string(pem))
	return p
}

// issue writes a server's pair into a directory of its own and returns the two files.
func (p *pki) issue(t *testing.T, name, host string) (certFile, keyFile string) {
	t.Helper()
	return p.sign(t, name, &x509.Certificate{
		Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

func (p *pki) issueClient(t *testing.T, name, commonName string) (certFile, keyFile string) {
	t.Helper()
	return p.sign(t, name, &x509.Certificate{
		Subject: pkix.Name{CommonName: commonName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (p *pki) sign(t *testing.T, name string, template *x509.Certificate) (certFile, keyFile string) {
	t.Helper()
	key := newKey(t)
	template.SerialNumber = big.NewInt(1)
	template.NotBefore, template.NotAfter = p.cert.NotBefore, p.cert.NotBefore.Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, p.cert, key.Public(), p.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	certPEM, err := certutil.EncodeCertificates(cert)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(p.dir, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	write(t, certFile, string(certPEM))
	write(t, keyFile, string(keyPEM))
	return certFile, keyFile
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
