package pki

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
)

// signingKeys tells what is accepted, and which of it signs.
func signingKeys(t *testing.T, dir string) (accepted int, signs int) {
	t.Helper()
	private, err := os.ReadFile(filepath.Join(dir, current+".key"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(private)
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	own, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	rest, err := os.ReadFile(filepath.Join(dir, current+".pub"))
	if err != nil {
		t.Fatal(err)
	}
	signs = -1
	for {
		block, rest = pem.Decode(rest)
		if block == nil {
			return accepted, signs
		}
		if bytes.Equal(block.Bytes, own) {
			signs = accepted
		}
		accepted++
	}
}

func TestSigningKeysRotateWithOverlap(t *testing.T) {
	dir := t.TempDir()
	if err := WriteSigningKey(dir, current); err != nil {
		t.Fatal(err)
	}
	keys := SigningKeys{Dir: dir}
	expect := func(accepted, signs int) {
		t.Helper()
		if a, s := signingKeys(t, dir); a != accepted || s != signs {
			t.Errorf("%d keys are accepted and number %d signs, want %d and %d", a, s, accepted, signs)
		}
	}
	refused := func(step string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s was not refused", step)
		}
	}
	for range 2 { // a second rotation is as the first
		expect(1, 0)
		refused("use before add", keys.Use())
		refused("retire before add", keys.Retire())
		if err := keys.Add(); err != nil {
			t.Fatal(err)
		}
		expect(2, 0)
		refused("a second add", keys.Add())
		refused("retire before use", keys.Retire())
		if err := keys.Use(); err != nil {
			t.Fatal(err)
		}
		expect(2, 1)
		if err := keys.Retire(); err != nil {
			t.Fatal(err)
		}
	}
	expect(1, 0)
}
