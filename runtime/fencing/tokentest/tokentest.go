// Package tokentest makes ServiceAccount tokens as an API server does, with real keys, for tests.
package tokentest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Key is a signing key with its id.
type Key struct {
	ID        string
	algorithm jose.SignatureAlgorithm
	private   crypto.Signer
}

// RSA makes a key for RS256.
func RSA(t testing.TB, id string, bits int) Key {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return Key{id, jose.RS256, private}
}

// ECDSA makes a key for ES256.
func ECDSA(t testing.TB, id string) Key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return Key{id, jose.ES256, private}
}

// JWKS is what an API server with these keys serves.
func JWKS(t testing.TB, keys ...Key) []byte {
	t.Helper()
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, key := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.private.Public(), KeyID: key.ID, Algorithm: string(key.algorithm), Use: "sig"})
	}
	raw, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Claims are those of a token by name.
type Claims map[string]any

// Bound are the claims of a projected token of a pod.
func Bound(issuer, namespace, account, podName, podUID string, issued time.Time, life time.Duration, audience ...string) Claims {
	return Claims{
		"iss": issuer, "aud": audience, "sub": "system:serviceaccount:" + namespace + ":" + account, "jti": "id-of-" + podUID,
		"iat": issued.Unix(), "nbf": issued.Unix(), "exp": issued.Add(life).Unix(),
		"kubernetes.io": map[string]any{
			"namespace":      namespace,
			"serviceaccount": map[string]any{"name": account, "uid": account + "-uid"},
			"pod":            map[string]any{"name": podName, "uid": podUID},
			"node":           map[string]any{"name": "node", "uid": "node-uid"},
		},
	}
}

// With are the claims with some replaced; a nil value removes one.
func (c Claims) With(changes Claims) Claims {
	out := maps.Clone(c)
	for name, value := range changes {
		out[name] = value
		if value == nil {
			delete(out, name)
		}
	}
	return out
}

// Kubernetes are the claims with some of Kubernetes' own replaced; a nil value removes one.
func (c Claims) Kubernetes(changes Claims) Claims {
	return c.With(Claims{"kubernetes.io": map[string]any(Claims(c["kubernetes.io"].(map[string]any)).With(changes))})
}

// Sign makes a token.
func (k Key) Sign(t testing.TB, claims Claims) string {
	t.Helper()
	return SignWith(t, k.algorithm, k.private, k.ID, claims)
}

// SignWith makes a token with any key and algorithm, as an attacker may.
func SignWith(t testing.TB, algorithm jose.SignatureAlgorithm, key any, id string, claims Claims) string {
	t.Helper()
	options := new(jose.SignerOptions)
	if id != "" {
		options.WithHeader("kid", id)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(map[string]any(claims)).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// Public is the public key.
func (k Key) Public() crypto.PublicKey { return k.private.Public() }

// Signer is the private key.
func (k Key) Signer() crypto.Signer { return k.private }
