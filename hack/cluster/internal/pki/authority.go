package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// lifetime is far beyond that of any local cluster; nothing here is renewed.
const lifetime = 10 * 365 * 24 * time.Hour

// Authority signs certificates.
type Authority struct {
	Pair
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	now  time.Time
}

// Subject says whom a certificate is for. Names and IPs make it usable by a server; every certificate is usable by a client.
type Subject struct {
	CommonName    string
	Organizations []string
	Names         []string
	IPs           []net.IP
}

// NewAuthority makes a self-signed authority that is valid from an hour before now.
func NewAuthority(name string, now time.Time) (*Authority, error) {
	a := &Authority{now: now}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("making the key of %s: %w", name, err)
	}
	template := a.template(pkix.Name{CommonName: name})
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign
	if a.Pair, err = sign(template, template, &a.key.PublicKey, a.key, a.key); err != nil {
		return nil, fmt.Errorf("making authority %s: %w", name, err)
	}
	block, _ := pem.Decode(a.Cert)
	if a.cert, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, fmt.Errorf("reading authority %s: %w", name, err)
	}
	return a, nil
}

// Issue makes a key and a certificate for the subject.
func (a *Authority) Issue(s Subject) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("making the key of %s: %w", s.CommonName, err)
	}
	template := a.template(pkix.Name{CommonName: s.CommonName, Organization: s.Organizations})
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(s.Names)+len(s.IPs) > 0 {
		template.DNSNames, template.IPAddresses = s.Names, s.IPs
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	pair, err := sign(template, a.cert, &key.PublicKey, a.key, key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing for %s: %w", s.CommonName, err)
	}
	return pair, nil
}

func (a *Authority) template(name pkix.Name) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               name,
		NotBefore:             a.now.Add(-time.Hour),
		NotAfter:              a.now.Add(lifetime),
		BasicConstraintsValid: true,
	}
}

func sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, signer, subjectKey *ecdsa.PrivateKey) (Pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		return Pair{}, err
	}
	keyDER, err := x509.MarshalECPrivateKey(subjectKey)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}, nil
}
