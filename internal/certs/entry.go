package certs

import (
	"bytes"
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"time"

	certutil "k8s.io/client-go/util/cert"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// Keys of an entry in the Secret of its namespace, after its name. The certificate and its key are besides; a pod mounts those two alone.
const (
	suffixAuthority     = ".ca"        // what verifies the certificate, where an issuer outside gave it
	suffixIssuer        = ".issuer"    // which issuer
	suffixSince         = ".since"     // since when
	suffixNextKey       = ".next-key"  // the key of the certificate that is asked for
	suffixNextAuthority = ".next-ca"   // what will verify that one
	suffixFormer        = ".former-ca" // what verified those before, while pods may serve with them
)

// entry is what the Secret of a namespace holds of one flow or pool.
type entry struct {
	cert, key, authority           []byte
	issuer                         string
	since                          time.Time
	nextKey, nextAuthority, former []byte
}

func readEntry(data map[string][]byte, name string) entry {
	since, _ := time.Parse(time.RFC3339, string(data[name+suffixSince])) // the zero time where somebody damaged it
	return entry{
		cert: data[name+runtimeconfig.TLSCertSuffix], key: data[name+runtimeconfig.TLSKeySuffix],
		authority: data[name+suffixAuthority], issuer: string(data[name+suffixIssuer]), since: since,
		nextKey: data[name+suffixNextKey], nextAuthority: data[name+suffixNextAuthority], former: data[name+suffixFormer],
	}
}

// data are the keys of the entry; the value of one that should not be there is nil.
func (e entry) data(name string) map[string][]byte {
	var since []byte
	if !e.since.IsZero() {
		since = []byte(e.since.UTC().Format(time.RFC3339))
	}
	all := map[string][]byte{
		runtimeconfig.TLSCertSuffix: e.cert, runtimeconfig.TLSKeySuffix: e.key,
		suffixAuthority: e.authority, suffixIssuer: []byte(e.issuer), suffixSince: since,
		suffixNextKey: e.nextKey, suffixNextAuthority: e.nextAuthority, suffixFormer: e.former,
	}
	out := map[string][]byte{}
	for suffix, value := range all {
		out[name+suffix] = nil
		if len(value) > 0 {
			out[name+suffix] = value
		}
	}
	return out
}

// changes are the keys of after that differ in the Secret.
func changes(have map[string][]byte, name string, after entry) map[string][]byte {
	out := after.data(name)
	maps.DeleteFunc(out, func(key string, value []byte) bool { return bytes.Equal(have[key], value) })
	return out
}

// merged is the Secret with changes.
func merged(have, changed map[string][]byte) map[string][]byte {
	out := map[string][]byte{}
	maps.Copy(out, have)
	maps.Copy(out, changed)
	maps.DeleteFunc(out, func(_ string, value []byte) bool { return len(value) == 0 })
	return out
}

// serve puts another certificate in the place of the one that is there. What verified that one is trusted on.
func (e entry) serve(cert, key, authority []byte) entry {
	out := entry{cert: cert, key: key, authority: authority}
	former := rootsIn(e.former)
	former = append(former, without(rootsIn(e.authority), former)...)
	if former = without(former, rootsIn(authority)); len(former) > 0 {
		out.former, _ = certutil.EncodeCertificates(former...) // a buffer in memory takes everything
	}
	return out
}

// quiet is e with nothing asked for.
func (e entry) quiet() entry {
	e.nextKey, e.nextAuthority = nil, nil
	return e
}

// verified returns the certificate, where its peers can verify it for each of hosts. own are the roots of one that no issuer outside gave.
func (e entry) verified(own *x509.CertPool, hosts []string, now time.Time) (*x509.Certificate, bool) {
	if len(e.authority) == 0 {
		return verified(e.cert, e.key, own, hosts, now)
	}
	return verified(e.cert, e.key, poolOf(rootsIn(e.authority)), hosts, now)
}

// outside are the roots of all issuers outside that a Secret depends on. Most of its entries name the same.
func outside(data map[string][]byte) (roots []*x509.Certificate) {
	read := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		for _, suffix := range []string{suffixAuthority, suffixNextAuthority, suffixFormer} {
			if text := string(data[name]); strings.HasSuffix(name, suffix) && !read[text] {
				read[text] = true
				roots = append(roots, without(rootsIn(data[name]), roots)...)
			}
		}
	}
	return roots
}

// rootsIn are the authorities in a PEM text. A damaged text, and a certificate that may not sign others, are worth nothing.
func rootsIn(text []byte) (roots []*x509.Certificate) {
	found, err := certutil.ParseCertsPEM(text)
	if err != nil {
		return nil
	}
	for _, cert := range found {
		if cert.IsCA && !slices.ContainsFunc(roots, cert.Equal) {
			roots = append(roots, cert)
		}
	}
	return roots
}

func without(list, known []*x509.Certificate) []*x509.Certificate {
	return slices.DeleteFunc(slices.Clone(list), func(cert *x509.Certificate) bool { return slices.ContainsFunc(known, cert.Equal) })
}

func poolOf(roots []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, cert := range roots {
		pool.AddCert(cert)
	}
	return pool
}
