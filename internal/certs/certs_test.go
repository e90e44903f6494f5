package certs

import (
	"bytes"
	"crypto/x509"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	certutil "k8s.io/client-go/util/cert"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/workpulling/workpulling/internal/children"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

var authorityKey = types.NamespacedName{Namespace: "workpulling-system", Name: "workpulling-ca"}

func newWorld(t *testing.T) (client.Client, *clocktesting.FakeClock) {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(clientscheme.Scheme).Build(), clocktesting.NewFakeClock(time.Now())
}

func newAuthority(t *testing.T, c client.Client, clock *clocktesting.FakeClock) *Authority {
	t.Helper()
	a := NewAuthority(c, authorityKey, clock, logr.Discard())
	if err := a.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

func trustedPEM(t *testing.T, a *Authority) []byte {
	t.Helper()
	encoded, err := certutil.EncodeCertificates(a.known().trusted()...)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func TestReplicasThatStartAtOnceAgree(t *testing.T) {
	c, clock := newWorld(t)
	replicas := make([]*Authority, 4)
	var group sync.WaitGroup
	for i := range replicas {
		replicas[i] = NewAuthority(c, authorityKey, clock, logr.Discard())
		group.Go(func() {
			if err := replicas[i].Sync(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for _, r := range replicas[1:] {
		if !bytes.Equal(trustedPEM(t, r), trustedPEM(t, replicas[0])) {
			t.Fatal("two replicas trust different authorities")
		}
	}
}

func TestIssue(t *testing.T) {
	c, clock := newWorld(t)
	issuer := &Issuer{Authority: newAuthority(t, c, clock), Keeper: children.Keeper{Client: c, Live: c}, Clock: clock}
	host := runtimeconfig.ProducerHost("thumbnails", "media")
	read := func() map[string][]byte {
		t.Helper()
		var secret corev1.Secret
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "media", Name: runtimeconfig.TLSSecretName}, &secret); err != nil {
			t.Fatal(err)
		}
		return secret.Data
	}
	var renewBefore time.Time
	ensure := func(entry, host string) time.Duration {
		t.Helper()
		issued, err := issuer.Ensure(t.Context(), Serving{Namespace: "media", Entry: entry, Hosts: []string{host}, RenewBefore: renewBefore})
		if err != nil {
			t.Fatal(err)
		}
		if ahead := issued.Expires.Sub(clock.Now()); ahead < 7*24*time.Hour {
			t.Errorf("%s is valid for %v more, want at least 7 days", entry, ahead)
		}
		return issued.RenewIn
	}

	if left := ensure("a", host); left < 7*24*time.Hour {
		t.Errorf("a new certificate is renewed after %v, want at least 7 days", left)
	}
	first := read()
	ensure("b", "other")
	if !bytes.Equal(read()["a.crt"], first["a.crt"]) {
		t.Error("a second entry changed the first")
	}
	ensure("a", host)
	if !bytes.Equal(read()["a.crt"], first["a.crt"]) {
		t.Error("a valid certificate was issued again")
	}
	clock.Step(leafLife/2 + backdate)
	ensure("a", host)
	renewed := read()
	if bytes.Equal(renewed["a.crt"], first["a.crt"]) {
		t.Error("half of the life is over and the certificate was not renewed")
	}
	ensure("a", "another.host")
	if bytes.Equal(read()["a.crt"], renewed["a.crt"]) {
		t.Error("a certificate for the wrong host was kept")
	}

	leaked := read()
	renewBefore = clock.Now().Add(time.Hour).Truncate(time.Second)
	if left := ensure("a", "another.host"); left > time.Hour {
		t.Errorf("a person asks for a new certificate in an hour, and it is looked at in %v", left)
	}
	if !bytes.Equal(read()["a.crt"], leaked["a.crt"]) {
		t.Error("a certificate was replaced before the moment that a person gave")
	}
	clock.Step(time.Hour)
	ensure("a", "another.host")
	fresh := read()
	if bytes.Equal(fresh["a.key"], leaked["a.key"]) {
		t.Error("the leaked key was kept")
	}
	ensure("a", "another.host")
	if !bytes.Equal(read()["a.crt"], fresh["a.crt"]) {
		t.Error("what a person asked for once is done again")
	}

	if err := issuer.Forget(t.Context(), "media", "a"); err != nil {
		t.Fatal(err)
	}
	if data := read(); data["a.key"] != nil || data["b.key"] == nil {
		t.Error("want a's key gone and b's kept")
	}
	if err := issuer.Forget(t.Context(), "media", "b"); err != nil {
		t.Fatal(err)
	}
	for name, obj := range map[string]client.Object{runtimeconfig.TLSSecretName: &corev1.Secret{}, runtimeconfig.CAConfigMapName: &corev1.ConfigMap{}} {
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "media", Name: name}, obj); !apierrors.IsNotFound(err) {
			t.Errorf("%s after the last entry: %v", name, err)
		}
	}
}

func TestUsable(t *testing.T) {
	c, clock := newWorld(t)
	a := newAuthority(t, c, clock)
	stranger, err := newAuthorityPair(clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	sign := func(p pair, host string, at time.Time) (cert, key []byte) {
		t.Helper()
		signed, err := p.sign(Leaf{CommonName: host, Hosts: []string{host}, Usage: x509.ExtKeyUsageServerAuth}, at)
		if err != nil {
			t.Fatal(err)
		}
		if cert, key, err = signed.encode(); err != nil {
			t.Fatal(err)
		}
		return cert, key
	}
	good, goodKey := sign(a.known().current, "h", clock.Now())
	other, _ := sign(a.known().current, "h", clock.Now())
	old, oldKey := sign(a.known().current, "h", clock.Now().Add(-leafLife/2-time.Hour))
	foreign, foreignKey := sign(stranger, "h", clock.Now())
	cases := map[string]struct {
		cert, key []byte
		host      string
		want      bool
	}{
		"good":                 {good, goodKey, "h", true},
		"missing":              {nil, nil, "h", false},
		"another key":          {other, goodKey, "h", false},
		"another host":         {good, goodKey, "x", false},
		"past half":            {old, oldKey, "h", false},
		"of another authority": {foreign, foreignKey, "h", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, got := usable(tc.cert, tc.key, Serving{Hosts: []string{tc.host}}, a.known().signing(), clock.Now()); got != tc.want {
				t.Errorf("usable %v, want %v", got, tc.want)
			}
		})
	}
}
