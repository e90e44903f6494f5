package fencing

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/runtime/fencing/tokentest"
)

// FuzzJudgeToken judges any token: it never panics, and what is found fine without the key of the cluster is a token of the cluster, whose it
// says it is.
func FuzzJudgeToken(f *testing.F) {
	key, stranger := tokentest.ECDSA(f, "one"), tokentest.ECDSA(f, "one")
	set, err := parseKeys(tokentest.JWKS(f, key))
	if err != nil {
		f.Fatal(err)
	}
	good := key.Sign(f, claims())
	whose, _, found := judgeToken(good, set, expectations())
	if found != tokenFine {
		f.Fatalf("a good token: %d", found)
	}
	header, rest, _ := strings.Cut(good, ".")
	for _, token := range []string{
		good, stranger.Sign(f, claims()), good + "=", good + ".", header, "." + rest, "..", "", "{}", `{"payload":"e30","signatures":[{},{}]}`,
		"eyJhbGciOiJub25lIn0." + rest, "eyJhbGciOiJFUzI1NiIsImNyaXQiOlsiYSJdfQ." + rest, strings.Repeat(good+".", 3),
	} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		who, expires, found := judgeToken(token, set, expectations())
		switch {
		case found != tokenFine && found != tokenExpired && cmp.Diff(who, identity{}, cmp.AllowUnexported(identity{})) != "":
			t.Errorf("%q is found %d, and to be of %+v", token, found, who)
		case found == tokenFine && cmp.Diff(who, whose, cmp.AllowUnexported(identity{})) != "":
			t.Errorf("%q is fine, and of %+v", token, who)
		case found == tokenFine && !expires.After(expectations().now):
			t.Errorf("%q is fine, and ended at %s", token, expires)
		}
	})
}

// FuzzParseKeys reads any key set: what is taken can verify, and within bounds.
func FuzzParseKeys(f *testing.F) {
	f.Add(tokentest.JWKS(f, tokentest.ECDSA(f, "one"), tokentest.RSA(f, "two", 2048)))
	for _, raw := range []string{``, `{}`, `{"keys":[{}]}`, `{"keys":[{"kty":"oct","k":"AAAA","kid":"x"}]}`, `{"keys":[{"kty":"RSA","n":"AA","e":"AA"}]}`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		set, err := parseKeys(raw)
		if err != nil {
			return
		}
		if n := len(set.keys); n == 0 || n > mostKeys || len(raw) > mostKeysBytes {
			t.Errorf("%d keys of %d bytes", n, len(raw))
		}
		for _, key := range set.keys {
			if !verifies(key) || !key.IsPublic() {
				t.Errorf("%+v is no public key for signatures", key)
			}
		}
	})
}

// FuzzRecord reads any file in the place of what was kept: it is refused, or it is whole and of this flow.
func FuzzRecord(f *testing.F) {
	r := record{owner: "flow"}
	body := json.RawMessage(`{"issuer":"a"}`)
	whole, err := json.Marshal(envelope{Format: recordFormat, Owner: r.owner, Sum: sum(body), Body: body})
	if err != nil {
		f.Fatal(err)
	}
	for _, raw := range [][]byte{whole, whole[:len(whole)/2], bytes.ReplaceAll(whole, []byte(`"a"`), []byte(`"b"`)), bytes.ReplaceAll(whole, []byte("flow"), []byte("else")), nil, []byte("null")} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var kept keysRecord
		if r.decode(raw, &kept) != nil {
			return
		}
		var e envelope
		if err := json.Unmarshal(raw, &e); err != nil || e.Owner != r.owner || e.Sum != sum(e.Body) || e.Format != recordFormat {
			t.Errorf("%q was taken for a record: %+v, %v", raw, e, err)
		}
	})
}
