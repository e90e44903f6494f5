package certs

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// settle is how long a new authority is in the trust bundle before it signs.
const settle = 24 * time.Hour

// Keys of the authority's Secret.
const (
	keyCurrentCert  = "tls.crt"
	keyCurrentKey   = "tls.key"
	keyNextCert     = "next.crt"
	keyNextKey      = "next.key"
	keyPreviousCert = "previous.crt"
	keyBundle       = "ca.crt"
)

// keyring is the authority over time: the one that signs, perhaps the one that will, and those that did.
type keyring struct {
	current  pair
	next     *pair
	previous []*x509.Certificate
}

// advance rotates: at half of its life the current authority gets a successor, which takes over once the world has had time to trust
// it. It says whether anything changed.
func (k keyring) advance(now time.Time) (keyring, bool, error) {
	if k.current.cert == nil {
		first, err := newAuthorityPair(now)
		return keyring{current: first}, err == nil, err
	}
	changed := false
	kept := slices.DeleteFunc(slices.Clone(k.previous), func(c *x509.Certificate) bool { return !now.Before(c.NotAfter) })
	if len(kept) != len(k.previous) {
		k.previous, changed = kept, true
	}
	switch {
	case k.next == nil && now.After(renewAt(k.current.cert)):
		next, err := newAuthorityPair(now)
		if err != nil {
			return k, false, err
		}
		k.next, changed = &next, true
	case k.next != nil && now.After(k.next.cert.NotBefore.Add(backdate+settle)):
		k.previous = append(k.previous, k.current.cert)
		k.current, k.next, changed = *k.next, nil, true
	}
	return k, changed, nil
}

// trusted are all certificates that a peer may present the chain of.
func (k keyring) trusted() []*x509.Certificate {
	all := []*x509.Certificate{k.current.cert}
	if k.next != nil {
		all = append(all, k.next.cert)
	}
	return append(all, k.previous...)
}

func (k keyring) encode() (map[string][]byte, error) {
	data := map[string][]byte{}
	var err error
	if data[keyCurrentCert], data[keyCurrentKey], err = k.current.encode(); err != nil {
		return nil, err
	}
	if k.next != nil {
		if data[keyNextCert], data[keyNextKey], err = k.next.encode(); err != nil {
			return nil, err
		}
	}
	if len(k.previous) > 0 {
		if data[keyPreviousCert], err = certutil.EncodeCertificates(k.previous...); err != nil {
			return nil, fmt.Errorf("encoding the previous authorities: %w", err)
		}
	}
	if data[keyBundle], err = certutil.EncodeCertificates(k.trusted()...); err != nil {
		return nil, fmt.Errorf("encoding the trust bundle: %w", err)
	}
	return data, nil
}

func decodeKeyring(data map[string][]byte) (keyring, error) {
	var k keyring
	var err error
	if k.current, err = decode(data[keyCurrentCert], data[keyCurrentKey]); err != nil {
		return keyring{}, err
	}
	if len(data[keyNextCert]) > 0 {
		next, err := decode(data[keyNextCert], data[keyNextKey])
		if err != nil {
			return keyring{}, err
		}
		k.next = &next
	}
	if len(data[keyPreviousCert]) > 0 {
		if k.previous, err = certutil.ParseCertsPEM(data[keyPreviousCert]); err != nil {
			return keyring{}, fmt.Errorf("reading the previous authorities: %w", err)
		}
	}
	return k, nil
}
