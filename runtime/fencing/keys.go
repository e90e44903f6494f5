package fencing

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// algorithms are those that an API server signs tokens with, its own and through an external signer. None of them can be verified with
// a secret: a token that says "none" or HS256 of itself is not even parsed.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512}

// Bounds of a key set. A cluster has one or two keys, three in a rotation.
const (
	mostKeys      = 64
	smallestRSA   = 2048
	mostKeysBytes = 256 << 10
)

// keySet are the public keys of a cluster.
type keySet struct{ keys []jose.JSONWebKey }

// parseKeys reads a JWKS. Keys of kinds that are of no use for tokens are left out, so that a newer API server may have them; without
// one that is of use it is no key set.
func parseKeys(raw []byte) (*keySet, error) {
	if len(raw) > mostKeysBytes {
		return nil, fmt.Errorf("a key set of %d bytes is larger than any cluster's", len(raw))
	}
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		return nil, fmt.Errorf("decoding the key set: %w", err)
	}
	if len(document.Keys) > mostKeys {
		return nil, fmt.Errorf("%d keys are more than any cluster has", len(document.Keys))
	}
	set := new(keySet)
	for _, one := range document.Keys {
		var key jose.JSONWebKey
		if err := key.UnmarshalJSON(one); err == nil && verifies(key) {
			set.keys = append(set.keys, key)
		}
	}
	if len(set.keys) == 0 {
		return nil, errors.New("the key set has no key that tokens could be signed with")
	}
	return set, nil
}

// verifies says whether a key is a public one for signatures.
func verifies(key jose.JSONWebKey) bool {
	if !key.Valid() || key.Use != "" && key.Use != "sig" {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return public.N.BitLen() >= smallestRSA
	case *ecdsa.PublicKey:
		return true
	}
	return false
}

// find returns the keys that may have made a signature, and whether the set knows the id at all. A token without an id may be of any key.
func (s *keySet) find(id string, algorithm jose.SignatureAlgorithm) (keys []jose.JSONWebKey, known bool) {
	for _, key := range s.keys {
		if id != "" && key.KeyID != id {
			continue
		}
		known = true
		if key.Algorithm == "" || key.Algorithm == string(algorithm) {
			keys = append(keys, key)
		}
	}
	return keys, known
}
