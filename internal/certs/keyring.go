package certs

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// settle is how long a new authority is in the trust bundles before it signs, unless a person is in a hurry: clients outside have copies.
const settle = 24 * time.Hour

// Keys of the authority's Secret.
const (
	keyCurrentCert  = "tls.crt"
	keyCurrentKey   = "tls.key"
	keyNextCert     = "next.crt"
	keyNextKey      = "next.key"
	keyPreviousCert = "previous.crt"
	keyBundle       = "ca.crt"
	keyClosed       = "closed"
)

// keyring is the authority over time: the one that signs, perhaps the one that will, and those that did.
type keyring struct {
	current  pair
	next     *pair
	previous []*x509.Certificate
	// closed says that a rotation came to its end: every certificate in use is the current authority's, so nothing is inherited any more.
	closed bool
}

// Phase is where a rotation is.
type Phase string

// Phases of a rotation.
const (
	// PhaseNone: there is no rotation.
	PhaseNone Phase = "None"
	// PhaseAnnounced: the successor is in the trust bundles and does not sign yet.
	PhaseAnnounced Phase = "Announced"
	// PhaseReplacing: the successor signs, and what the former one signed is being replaced.
	PhaseReplacing Phase = "Replacing"
)

// Phases are all phases.
func Phases() []Phase { return []Phase{PhaseNone, PhaseAnnounced, PhaseReplacing} }

func (k keyring) phase() Phase {
	switch {
	case k.next != nil:
		return PhaseAnnounced
	case len(k.previous) > 0:
		return PhaseReplacing
	}
	return PhaseNone
}

// begun is when an authority or a certificate of ours was made.
func begun(cert *x509.Certificate) time.Time { return cert.NotBefore.Add(backdate) }

// outdated says whether cert was made before a moment that has come: a person asks for a new one. The zero time asks for nothing.
func outdated(cert *x509.Certificate, before, now time.Time) bool {
	return !now.Before(before) && begun(cert).Before(before)
}

// sight is what a rotation depends on, besides the keyring.
type sight struct {
	// renewBefore is what a person has asked for: an authority that was made before this moment is to be replaced.
	renewBefore time.Time
	// announcedFor is how long every trust bundle has held every authority that is trusted; replacedFor how long every server certificate
	// has been the current authority's. Zero where that is not so.
	announcedFor, replacedFor time.Duration
	// pause is how long kubelets may take to bring what was written into the pods.
	pause time.Duration
}

// advance takes the next step of a rotation where it is time for one, and says whether it was. A rotation begins at half of the life of the
// authority, or when a person asks. The successor signs once it is in every bundle, for a day where nobody is in a hurry; the former
// authority is trusted until everything that it signed has been replaced.
func (k keyring) advance(s sight, now time.Time) (keyring, bool, error) {
	asked := outdated(k.current.cert, s.renewBefore, now)
	switch k.phase() {
	case PhaseNone:
		if !asked && !now.After(renewAt(k.current.cert)) {
			return k, false, nil
		}
		next, err := newAuthorityPair(now)
		if err != nil {
			return k, false, err
		}
		k.next = &next
	case PhaseAnnounced:
		if s.announcedFor < s.pause || !asked && now.Before(begun(k.next.cert).Add(settle)) {
			return k, false, nil
		}
		k.previous = append(slices.Clone(k.previous), k.current.cert)
		k.current, k.next = *k.next, nil
	case PhaseReplacing:
		if s.announcedFor < s.pause || s.replacedFor < s.pause {
			return k, false, nil
		}
		k.previous, k.closed = nil, true
	}
	return k, true, nil
}

// trusted are all certificates that a peer may present the chain of.
func (k keyring) trusted() []*x509.Certificate {
	all := []*x509.Certificate{k.current.cert}
	if k.next != nil {
		all = append(all, k.next.cert)
	}
	return append(all, k.previous...)
}

// signing are the authority that signs and the one that will: a replica that has just become the leader may not know yet that it does.
func (k keyring) signing() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(k.current.cert)
	if k.next != nil {
		pool.AddCert(k.next.cert)
	}
	return pool
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
	if k.closed {
		data[keyClosed] = []byte("true")
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
	k.closed = len(data[keyClosed]) > 0
	return k, nil
}
