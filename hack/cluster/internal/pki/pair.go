package pki

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
)

// Pair is a certificate and its private key, both in PEM.
type Pair struct{ Cert, Key []byte }

// Write stores the pair as dir/name.crt and dir/name.key.
func (p Pair) Write(dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), p.Cert, 0o600); err != nil {
		return fmt.Errorf("writing a certificate: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".key"), p.Key, 0o600); err != nil {
		return fmt.Errorf("writing a key: %w", err)
	}
	return nil
}

// WriteSigningKey makes the RSA key that signs ServiceAccount tokens and stores it as dir/name.key (private) and
// dir/name.pub. RSA, because tokens of most real clusters are RS256 and a verifier should meet the same here.
func WriteSigningKey(dir, name string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("making key %s: %w", name, err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("encoding key %s: %w", name, err)
	}
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(filepath.Join(dir, name+".key"), private, 0o600); err != nil {
		return fmt.Errorf("writing key %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o600); err != nil {
		return fmt.Errorf("writing key %s: %w", name, err)
	}
	return nil
}
