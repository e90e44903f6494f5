package fencing

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/workpulling/workpulling/runtime/fencing/tokentest"
	"github.com/workpulling/workpulling/runtime/transport"
)

const testIssuer = "https://kubernetes.default.svc"

var issued = time.Unix(1_900_000_000, 0)

func expectations() expectation {
	return expectation{issuer: testIssuer, audience: testAudience, serverAudiences: []string{testIssuer}, now: issued.Add(10 * time.Minute)}
}

func claims() tokentest.Claims {
	return tokentest.Bound(testIssuer, "shop", "app", "pod", "uid", issued, time.Hour, testAudience)
}

// resign puts another header before the claims and signature of a token.
func resign(token, header string) string {
	_, rest, _ := strings.Cut(token, ".")
	return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + rest
}

// B-082: whatever is wrong with a token has a finding of its own, and a label; with keys of both kinds that API servers sign with.
func TestJudgeToken(t *testing.T) {
	rsa, ec := tokentest.RSA(t, "rsa", 2048), tokentest.ECDSA(t, "ec")
	stranger := tokentest.RSA(t, "stranger", 2048)
	impostor := tokentest.RSA(t, "rsa", 2048) // under the id of a key of the cluster
	set, err := parseKeys(tokentest.JWKS(t, rsa, ec))
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(rsa.Public())
	if err != nil {
		t.Fatal(err)
	}
	good := claims()
	at := func(offset time.Duration) tokentest.Claims {
		return good.With(tokentest.Claims{"iat": nil, "nbf": issued.Add(offset).Unix(), "exp": issued.Add(offset + time.Hour).Unix()})
	}
	for name, c := range map[string]struct {
		token string
		found finding
		label transport.Label
	}{
		"fine, RSA":                {rsa.Sign(t, good), tokenFine, ""},
		"fine, ECDSA":              {ec.Sign(t, good), tokenFine, ""},
		"fine, without a key id":   {tokentest.SignWith(t, jose.ES256, ec.Signer(), "", good), tokenFine, ""},
		"fine, of two audiences":   {rsa.Sign(t, good.With(tokentest.Claims{"aud": []string{"other", testAudience}})), tokenFine, ""},
		"fine, one audience":       {rsa.Sign(t, good.With(tokentest.Claims{"aud": testAudience})), tokenFine, ""},
		"fine, a minute too old":   {rsa.Sign(t, at(-51*time.Minute)), tokenFine, ""},
		"fine, a minute too young": {rsa.Sign(t, at(11*time.Minute)), tokenFine, ""},
		"fine, not of a pod":       {rsa.Sign(t, good.Kubernetes(tokentest.Claims{"pod": nil, "node": nil})), tokenFine, ""},

		"no token":               {"nonsense", tokenMalformed, transport.LabelTokenInvalid},
		"empty":                  {"", tokenMalformed, transport.LabelTokenInvalid},
		"dots":                   {"..", tokenMalformed, transport.LabelTokenInvalid},
		"algorithm none":         {resign(rsa.Sign(t, good), `{"alg":"none","kid":"rsa"}`), tokenMalformed, transport.LabelTokenInvalid},
		"no algorithm":           {resign(rsa.Sign(t, good), `{"kid":"rsa"}`), tokenMalformed, transport.LabelTokenInvalid},
		"the public key as MAC":  {tokentest.SignWith(t, jose.HS256, public, "rsa", good), tokenMalformed, transport.LabelTokenInvalid},
		"an unusual algorithm":   {tokentest.SignWith(t, jose.PS256, rsa.Signer(), "rsa", good), tokenMalformed, transport.LabelTokenInvalid},
		"the key of another id":  {resign(rsa.Sign(t, good), `{"alg":"RS256","kid":"ec"}`), tokenForged, transport.LabelTokenSignature},
		"an impostor":            {impostor.Sign(t, good), tokenForged, transport.LabelTokenSignature},
		"other claims":           {rsa.Sign(t, good)[:20] + strings.Replace(rsa.Sign(t, good)[20:], ".", ".A", 1), tokenForged, transport.LabelTokenSignature},
		"an unknown key":         {stranger.Sign(t, good), tokenUnknownKey, transport.LabelTokenKey},
		"a legacy token":         {rsa.Sign(t, good.With(tokentest.Claims{"iss": legacyIssuer, "aud": nil, "exp": nil})), tokenLegacy, transport.LabelTokenLegacy},
		"another issuer":         {rsa.Sign(t, good.With(tokentest.Claims{"iss": "https://other"})), tokenOtherIssuer, transport.LabelTokenIssuer},
		"no issuer":              {rsa.Sign(t, good.With(tokentest.Claims{"iss": nil})), tokenOtherIssuer, transport.LabelTokenIssuer},
		"for the API server":     {rsa.Sign(t, good.With(tokentest.Claims{"aud": []string{testIssuer}})), tokenOwnAudience, transport.LabelTokenDefaultAudience},
		"for others":             {rsa.Sign(t, good.With(tokentest.Claims{"aud": []string{"vault"}})), tokenAudience, transport.LabelTokenAudience},
		"for nobody":             {rsa.Sign(t, good.With(tokentest.Claims{"aud": nil})), tokenAudience, transport.LabelTokenAudience},
		"expired":                {rsa.Sign(t, at(-52*time.Minute)), tokenExpired, transport.LabelTokenExpired},
		"too young":              {rsa.Sign(t, at(12*time.Minute)), tokenEarly, transport.LabelUnavailable},
		"issued in the future":   {rsa.Sign(t, good.With(tokentest.Claims{"iat": issued.Add(12 * time.Minute).Unix()})), tokenEarly, transport.LabelUnavailable},
		"without an end":         {rsa.Sign(t, good.With(tokentest.Claims{"exp": nil})), tokenNoIdentity, transport.LabelTokenInvalid},
		"of nobody":              {rsa.Sign(t, good.With(tokentest.Claims{"kubernetes.io": nil})), tokenNoIdentity, transport.LabelTokenInvalid},
		"of no known account":    {rsa.Sign(t, good.Kubernetes(tokentest.Claims{"serviceaccount": map[string]any{"name": "app"}})), tokenNoIdentity, transport.LabelTokenInvalid},
		"of another subject":     {rsa.Sign(t, good.With(tokentest.Claims{"sub": "system:serviceaccount:shop:admin"})), tokenNoIdentity, transport.LabelTokenInvalid},
		"claims of other types":  {rsa.Sign(t, good.With(tokentest.Claims{"kubernetes.io": 7})), tokenNoIdentity, transport.LabelTokenInvalid},
		"bound to a Secret":      {rsa.Sign(t, good.Kubernetes(tokentest.Claims{"pod": nil, "secret": map[string]any{"name": "s", "uid": "u"}})), tokenOtherObject, transport.LabelTokenUnbound},
		"bound to a node":        {rsa.Sign(t, good.Kubernetes(tokentest.Claims{"pod": nil})), tokenOtherObject, transport.LabelTokenUnbound},
		"bound to a webhook":     {rsa.Sign(t, good.Kubernetes(tokentest.Claims{"pod": nil, "node": nil, "mutatingwebhookconfiguration": map[string]any{"name": "w", "uid": "u"}})), tokenOtherObject, transport.LabelTokenUnbound},
		"in other serialization": {`{"payload":"e30","signature":"AAAA","protected":"eyJhbGciOiJSUzI1NiJ9"}`, tokenMalformed, transport.LabelTokenInvalid},
	} {
		_, _, got := judgeToken(c.token, set, expectations())
		if got != c.found {
			t.Errorf("%s: finding %d, want %d", name, got, c.found)
		}
		if got == tokenFine {
			continue
		}
		if refusal := classifyFinding(got, testAudience); refusal.Label != c.label || refusal.Reason == "" || refusal.RetryAfter <= 0 {
			t.Errorf("%s: %+v, want the label %s", name, refusal, c.label)
		}
	}
}

// The identity is the one that a TokenReview tells, of Kubernetes 1.37.
func TestIdentityOfAToken(t *testing.T) {
	key := tokentest.ECDSA(t, "ec")
	set, err := parseKeys(tokentest.JWKS(t, key))
	if err != nil {
		t.Fatal(err)
	}
	who, expires, found := judgeToken(key.Sign(t, claims()), set, expectations())
	if found != tokenFine || !expires.Equal(issued.Add(time.Hour)) {
		t.Fatalf("finding %d, ends at %s", found, expires)
	}
	want := identity{
		user: authenticationv1.UserInfo{
			Username: "system:serviceaccount:shop:app", UID: "app-uid",
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"},
			Extra: map[string]authenticationv1.ExtraValue{
				"authentication.kubernetes.io/pod-name": {"pod"}, "authentication.kubernetes.io/pod-uid": {"uid"},
				"authentication.kubernetes.io/node-name": {"node"}, "authentication.kubernetes.io/node-uid": {"node-uid"},
				"authentication.kubernetes.io/credential-id": {"JTI=id-of-uid"},
			},
		},
		namespace: "shop", serviceAccount: "app", podName: "pod", podUID: "uid",
	}
	if diff := cmp.Diff(want, who, cmp.AllowUnexported(identity{})); diff != "" {
		t.Error(diff)
	}
}

func TestParseKeys(t *testing.T) {
	key, weak := tokentest.ECDSA(t, "ec"), tokentest.RSA(t, "weak", 1024)
	one := func(raw []byte) json.RawMessage {
		var set struct{ Keys []json.RawMessage }
		if err := json.Unmarshal(raw, &set); err != nil {
			t.Fatal(err)
		}
		return set.Keys[0]
	}
	good := string(one(tokentest.JWKS(t, key)))
	for name, c := range map[string]struct {
		raw  string
		want int // 0 for an error
	}{
		"one key":                {`{"keys":[` + good + `]}`, 1},
		"a kind of the future":   {`{"keys":[{"kty":"AKP","alg":"X","kid":"x","pub":"AA"},` + good + `]}`, 1},
		"a secret":               {`{"keys":[{"kty":"oct","k":"AAAA","kid":"s","alg":"HS256"}]}`, 0},
		"a weak key":             {string(tokentest.JWKS(t, weak)), 0},
		"a key for encryption":   {`{"keys":[` + strings.Replace(good, `"sig"`, `"enc"`, 1) + `]}`, 0},
		"no keys":                {`{"keys":[]}`, 0},
		"another document":       {`{"kind":"Status"}`, 0},
		"nonsense":               {`<html>`, 0},
		"more than any cluster":  {`{"keys":[` + strings.Repeat(good+",", mostKeys) + good + `]}`, 0},
		"larger than any":        {`{"keys":[` + good + `]}` + strings.Repeat(" ", mostKeysBytes), 0},
		"a broken one among two": {`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"},` + good + `]}`, 1},
	} {
		set, err := parseKeys([]byte(c.raw))
		if (err != nil) != (c.want == 0) || err == nil && len(set.keys) != c.want {
			t.Errorf("%s: %v, %v", name, set, err)
		}
	}
}
