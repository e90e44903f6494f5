package certs

import (
	"crypto/x509"
	"slices"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// inherited are the authorities in a namespace's bundle that the keyring does not know and that are trusted on. There are some after
// the authority's Secret was lost together with every process that knew it: pods still present, and clients still trust, what the lost one
// signed. That is over once its last certificate has expired, so an authority inherits for leafLife after its beginning and never later:
// what somebody adds to the bundle of an older one does not stay. A rotation that has come to its end is the end of that too. A damaged
// bundle is worth nothing.
func (k keyring) inherited(bundle []byte, now time.Time) []*x509.Certificate {
	if k.closed {
		return nil
	}
	known := k.trusted()
	oldest := slices.MinFunc(known, func(a, b *x509.Certificate) int { return a.NotBefore.Compare(b.NotBefore) })
	if now.After(oldest.NotBefore.Add(backdate + leafLife)) {
		return nil
	}
	found, err := certutil.ParseCertsPEM(bundle)
	if err != nil {
		return nil
	}
	var kept []*x509.Certificate
	for _, cert := range found {
		again := slices.ContainsFunc(slices.Concat(known, kept), cert.Equal)
		if !again && predecessor(cert, oldest) && now.Before(cert.NotAfter) {
			kept = append(kept, cert)
		}
	}
	return kept
}

// predecessor says whether cert is a root that may have come before first. One without our name is an issuer's outside: whether that is
// trusted, the Secret says.
func predecessor(cert, first *x509.Certificate) bool {
	return cert.IsCA && slices.Contains(cert.Subject.Organization, organization) && cert.CheckSignatureFrom(cert) == nil && !cert.NotBefore.After(first.NotBefore)
}
