package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestControlPlaneFilesFitTogether(t *testing.T) {
	now, api := time.Now(), net.IPv4(10, 200, 0, 1)
	c, err := NewControlPlane(filepath.Join(t.TempDir(), "pki"), now, api)
	if err != nil {
		t.Fatal(err)
	}
	for file, by := range map[string]*Authority{
		"apiserver": c.CA, "apiserver-kubelet-client": c.CA, "front-proxy-client": c.FrontProxy,
	} {
		pair, err := tls.LoadX509KeyPair(filepath.Join(c.Dir, file+".crt"), filepath.Join(c.Dir, file+".key"))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		roots := x509.NewCertPool()
		roots.AddCert(by.cert)
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if file != "apiserver" {
			continue
		}
		for _, name := range []string{"10.200.0.1", "kubernetes.default.svc"} {
			if err := pair.Leaf.VerifyHostname(name); err != nil {
				t.Error(err)
			}
		}
	}
	for _, file := range []string{"ca.key", "apiserver.key", "service-account.key"} {
		info, err := os.Stat(filepath.Join(c.Dir, file))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
}

func TestAClientCertificateIsNoServers(t *testing.T) {
	now := time.Now()
	ca, err := NewAuthority("ca", now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(Subject{CommonName: "admin", Organizations: []string{"system:masters"}})
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(pair.Cert)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err == nil {
		t.Error("it may serve")
	}
	if cert.Subject.CommonName != "admin" || cert.Subject.Organization[0] != "system:masters" {
		t.Errorf("subject %v", cert.Subject)
	}
}
