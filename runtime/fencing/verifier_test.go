package fencing_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/fencing/tokentest"
	"github.com/workpulling/workpulling/runtime/transport"
)

// verifying is a Verifier before a server.
type verifying struct {
	*server
	*fencing.Verifier
	clock *clocktesting.FakePassiveClock
}

func newVerifying(t *testing.T) verifying {
	t.Helper()
	s, clock := newServer(t), clocktesting.NewFakePassiveClock(time.Now())
	s.now = clock.Now
	own := s.keys[0].Sign(t, tokentest.Bound(issuer, "system", "operator", "operator", "o", clock.Now(), time.Hour, issuer))
	v, err := fencing.NewVerifier(&rest.Config{Host: s.URL, BearerToken: own}, audience, clock, func() float64 { return 0 }, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	return verifying{s, v, clock}
}

func (v verifying) claims() tokentest.Claims {
	return tokentest.Bound(issuer, "shop", "orders-producer", "orders-producer-0", "uid", v.clock.Now(), time.Hour, audience)
}

func (v verifying) label(token string) transport.Label {
	v.t.Helper()
	_, err := v.Verify(v.t.Context(), token)
	return labelOf(v.t, err)
}

func TestVerify(t *testing.T) {
	v := newVerifying(t)
	got, err := v.Verify(t.Context(), v.key().Sign(t, v.claims()))
	if err != nil {
		t.Fatal(err)
	}
	want := fencing.PodToken{Namespace: "shop", ServiceAccount: "orders-producer", Pod: "orders-producer-0", PodUID: "uid"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	stranger := tokentest.ECDSA(t, "first") // under the id of a key of the cluster
	for name, c := range map[string]struct {
		token string
		want  transport.Label
	}{
		"nonsense":            {"nonsense", transport.LabelTokenInvalid},
		"another audience":    {v.key().Sign(t, v.claims().With(tokentest.Claims{"aud": "other"})), transport.LabelTokenAudience},
		"for the API server":  {v.key().Sign(t, v.claims().With(tokentest.Claims{"aud": issuer})), transport.LabelTokenDefaultAudience},
		"another issuer":      {v.key().Sign(t, v.claims().With(tokentest.Claims{"iss": "https://other"})), transport.LabelTokenIssuer},
		"an impostor":         {stranger.Sign(t, v.claims()), transport.LabelTokenSignature},
		"not bound to a pod":  {v.key().Sign(t, v.claims().Kubernetes(tokentest.Claims{"pod": nil, "node": nil})), transport.LabelTokenUnbound},
		"bound without a UID": {v.key().Sign(t, v.claims().Kubernetes(tokentest.Claims{"pod": map[string]any{"name": "p"}})), transport.LabelTokenUnbound},
		"expired":             {v.key().Sign(t, v.claims().With(tokentest.Claims{"exp": v.clock.Now().Add(-time.Hour).Unix()})), transport.LabelTokenExpired},
	} {
		if got := v.label(c.token); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if n := v.count(pathTokens); n != 0 {
		t.Errorf("%d tokens were reviewed", n)
	}
}

// A key that is new is asked for on behalf of its first token, and one that was dropped is out when the set is read again.
func TestAVerifierFollowsTheKeys(t *testing.T) {
	v := newVerifying(t)
	old := v.key()
	if got := v.label(old.Sign(t, v.claims())); got != "" {
		t.Fatal(got)
	}
	v.set(func(s *server) { s.keys = []tokentest.Key{tokentest.ECDSA(t, "second")} })
	if got := v.label(v.key().Sign(t, v.claims())); got != transport.LabelUnavailable {
		t.Errorf("%q within the pause, want a request to try again", got)
	}
	v.clock.SetTime(v.clock.Now().Add(31 * time.Second))
	if got := v.label(v.key().Sign(t, v.claims())); got != "" {
		t.Errorf("a new key: %q", got)
	}
	v.clock.SetTime(v.clock.Now().Add(6 * time.Minute))
	if got := v.label(old.Sign(t, v.claims())); got != transport.LabelUnavailable {
		t.Errorf("a dropped key: %q just after the set was read, want a request to try again", got)
	}
	v.clock.SetTime(v.clock.Now().Add(31 * time.Second))
	if got := v.label(old.Sign(t, v.claims())); got != transport.LabelTokenKey {
		t.Errorf("a dropped key: %q", got)
	}
}

// Keys count on while the API server is away, for a day; where it gives them away to nobody, nothing is decided.
func TestAVerifierWithoutAnAPIServer(t *testing.T) {
	v := newVerifying(t)
	v.set(func(s *server) { s.answers[pathKeys] = http.StatusForbidden })
	if got := v.label(v.key().Sign(t, v.claims())); got != transport.LabelUnavailable {
		t.Errorf("keys that are given to nobody: %q", got)
	}
	v.set(func(s *server) { s.answers[pathKeys] = 0 })
	v.clock.SetTime(v.clock.Now().Add(time.Minute))
	if got := v.label(v.key().Sign(t, v.claims())); got != "" {
		t.Errorf("keys that are given again: %q", got)
	}
	v.set(func(s *server) { s.cut = true })
	v.clock.SetTime(v.clock.Now().Add(23 * time.Hour))
	if got := v.label(v.key().Sign(t, v.claims())); got != "" {
		t.Errorf("in an outage: %q", got)
	}
	v.clock.SetTime(v.clock.Now().Add(2 * time.Hour))
	if got := v.label(v.key().Sign(t, v.claims())); got != transport.LabelUnavailable {
		t.Errorf("after a day of it: %q", got)
	}
}
