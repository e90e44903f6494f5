package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	// leafLife is the validity of a server or client certificate; it is renewed at half.
	leafLife = 30 * 24 * time.Hour
	// backdate absorbs clocks that go slow.
	backdate = time.Hour
	// organization is in the name of each authority of ours.
	organization = "workpulling.dev"
)

// pair is a certificate with its key.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthorityPair(now time.Time) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("making the authority's key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return pair{}, err
	}
	cert, err := certutil.NewSelfSignedCACert(certutil.Config{
		// The serial is in the name, so that a chain is never built with the wrong one of two authorities.
		CommonName: fmt.Sprintf("workpulling-ca-%x", serial.Bytes()[:4]), Organization: []string{organization}, NotBefore: now.Add(-backdate),
	}, key)
	if err != nil {
		return pair{}, fmt.Errorf("making the authority's certificate: %w", err)
	}
	return pair{cert, key}, nil
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	return serial.SetBit(serial, 119, 1), nil
}

// Leaf describes a certificate to be signed.
type Leaf struct {
	CommonName string
	// Hosts are the DNS names of a server; a client has none.
	Hosts []string
	Usage x509.ExtKeyUsage
}

func (p pair) sign(leaf Leaf, now time.Time) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("making the key of %s: %w", leaf.CommonName, err)
	}
	serial, err := newSerial()
	if err != nil {
		return pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: leaf.CommonName},
		DNSNames:     leaf.Hosts,
		NotBefore:    now.Add(-backdate),
		NotAfter:     now.Add(leafLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{leaf.Usage},
	}, p.cert, key.Public(), p.key)
	if err != nil {
		return pair{}, fmt.Errorf("signing the certificate of %s: %w", leaf.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return pair{}, fmt.Errorf("reading the certificate of %s: %w", leaf.CommonName, err)
	}
	return pair{cert, key}, nil
}

func (p pair) encode() (certPEM, keyPEM []byte, err error) {
	if certPEM, err = certutil.EncodeCertificates(p.cert); err != nil {
		return nil, nil, fmt.Errorf("encoding a certificate: %w", err)
	}
	if keyPEM, err = keyutil.MarshalPrivateKeyToPEM(p.key); err != nil {
		return nil, nil, fmt.Errorf("encoding a key: %w", err)
	}
	return certPEM, keyPEM, nil
}

func decode(certPEM, keyPEM []byte) (pair, error) {
	parsed, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return pair{}, fmt.Errorf("reading a certificate and its key: %w", err)
	}
	key, ok := parsed.PrivateKey.(crypto.Signer)
	if !ok {
		return pair{}, errors.New("reading a certificate: its key cannot sign")
	}
	return pair{parsed.Leaf, key}, nil
}

// renewAt is when half of a certificate's life is over.
func renewAt(cert *x509.Certificate) time.Time {
	return cert.NotBefore.Add(cert.NotAfter.Sub(cert.NotBefore) / 2)
}
