package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	certutil "k8s.io/client-go/util/cert"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/workpulling/workpulling/internal/children"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

func authoritySecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: authorityKey.Namespace, Name: authorityKey.Name}}
}

func TestLostAuthorityIsWrittenAgainInSeconds(t *testing.T) {
	cases := map[string]struct {
		lose func(context.Context, client.Client) error
		log  string
	}{
		"deleted": {func(ctx context.Context, c client.Client) error { return c.Delete(ctx, authoritySecret()) },
			"Wrote the deleted certificate authority again"},
		"emptied": {func(ctx context.Context, c client.Client) error { return c.Update(ctx, authoritySecret()) },
			"Wrote the damaged certificate authority again"},
		"half replaced": {func(ctx context.Context, c client.Client) error {
			secret := authoritySecret()
			secret.Data = map[string][]byte{keyCurrentCert: []byte("-")}
			return c.Patch(ctx, secret, client.Merge)
		}, "Wrote the damaged certificate authority again"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, clock := newWorld(t)
				a := newAuthority(t, c, clock)
				var logged []string
				a.log = funcr.NewJSON(func(line string) { logged = append(logged, line) }, funcr.Options{})
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- a.Start(ctx) }()
				synctest.Wait()

				if err := tc.lose(ctx, c); err != nil {
					t.Fatal(err)
				}
				// The world has ten seconds; what follows must find nothing to do.
				for range 3 {
					clock.Step(10 * time.Second)
					synctest.Wait()
				}
				// One that starts now reads what was lost.
				if b := newAuthority(t, c, clock); !bytes.Equal(trustedPEM(t, b), trustedPEM(t, a)) {
					t.Error("the authority changed because its Secret was lost")
				}
				stop()
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				if len(logged) != 1 || !strings.Contains(logged[0], tc.log) {
					t.Errorf("logged %q, want once %q", logged, tc.log)
				}
			})
		})
	}
}

func TestReplacedAuthorityServesAtOnce(t *testing.T) {
	c, clock := newWorld(t)
	a := newAuthority(t, c, clock)
	own := Leaf{CommonName: "h", Hosts: []string{"h"}, Usage: x509.ExtKeyUsageServerAuth}
	if _, err := a.Certificate(own); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), authoritySecret()); err != nil {
		t.Fatal(err)
	}
	b := newAuthority(t, c, clock)
	if err := a.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	served, err := a.Certificate(own)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := served.Leaf.Verify(x509.VerifyOptions{DNSName: "h", Roots: b.Pool(), CurrentTime: clock.Now()}); err != nil {
		t.Errorf("a replica serves with a certificate of the replaced authority: %v", err)
	}
}

func TestFailuresInARowAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := false
		c := fake.NewClientBuilder().WithScheme(clientscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
				if failing {
					return errors.New("the API server is away")
				}
				return c.Get(ctx, key, obj, options...)
			},
		}).Build()
		clock := clocktesting.NewFakeClock(time.Now())
		a := newAuthority(t, c, clock)
		errorsLogged := 0
		a.log = funcr.New(func(string, string) { errorsLogged++ }, funcr.Options{})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- a.Start(ctx) }()
		for _, failing = range []bool{true, true, true, false, true, true} {
			synctest.Wait()
			clock.Step(syncEvery)
			synctest.Wait()
		}
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if errorsLogged != 2 {
			t.Errorf("logged %d failures, want one for each of 2 rows", errorsLogged)
		}
	})
}

func TestDamagedAuthorityThatNobodyKnowsIsAnError(t *testing.T) {
	c, clock := newWorld(t)
	if err := c.Create(t.Context(), authoritySecret()); err != nil {
		t.Fatal(err)
	}
	if err := NewAuthority(c, authorityKey, clock, logr.Discard()).Sync(t.Context()); !errors.Is(err, ErrDamaged) {
		t.Errorf("an authority was read from an empty Secret: error %v", err)
	}
}

// TestAuthorityMadeAnew loses the Secret while no operator runs.
func TestAuthorityMadeAnew(t *testing.T) {
	c, clock := newWorld(t)
	issuer := func(a *Authority) *Issuer {
		return &Issuer{Authority: a, Keeper: children.Keeper{Client: c, Live: c}, Clock: clock}
	}
	ensure := func(i *Issuer) {
		t.Helper()
		if _, err := i.Ensure(t.Context(), Serving{Namespace: "media", Entry: "a", Hosts: []string{"h"}}); err != nil {
			t.Fatal(err)
		}
	}
	bundled := func() []*x509.Certificate {
		t.Helper()
		var bundle corev1.ConfigMap
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "media", Name: runtimeconfig.CAConfigMapName}, &bundle); err != nil {
			t.Fatal(err)
		}
		found, err := certutil.ParseCertsPEM([]byte(bundle.Data[corev1.ServiceAccountRootCAKey]))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	leaf := func() *x509.Certificate {
		t.Helper()
		var secret corev1.Secret
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "media", Name: runtimeconfig.TLSSecretName}, &secret); err != nil {
			t.Fatal(err)
		}
		have, err := decode(secret.Data["a.crt"], secret.Data["a.key"])
		if err != nil {
			t.Fatal(err)
		}
		return have.cert
	}
	pool := func(certs []*x509.Certificate) *x509.CertPool {
		all := x509.NewCertPool()
		for _, cert := range certs {
			all.AddCert(cert)
		}
		return all
	}
	verify := func(cert *x509.Certificate, trusted *x509.CertPool) error {
		_, err := cert.Verify(x509.VerifyOptions{DNSName: "h", Roots: trusted, CurrentTime: clock.Now()})
		return err
	}

	first := newAuthority(t, c, clock)
	ensure(issuer(first))
	old := leaf()
	clock.Step(time.Hour)
	if err := c.Delete(t.Context(), authoritySecret()); err != nil {
		t.Fatal(err)
	}
	second := newAuthority(t, c, clock)
	for range 2 {
		ensure(issuer(second))
	}
	if got := bundled(); len(got) != 2 || !got[0].Equal(second.known().current.cert) || !got[1].Equal(first.known().current.cert) {
		t.Fatalf("the bundle has %d certificates, want the new one and the lost one", len(got))
	}
	if err := verify(old, pool(bundled())); err != nil {
		t.Errorf("verifying what the lost authority signed: %v", err)
	}
	if err := verify(leaf(), second.Pool()); err != nil {
		t.Errorf("the certificate was not issued again: %v", err)
	}
	if verify(old, second.Pool()) == nil {
		t.Error("the operator itself trusts what it read from a namespace")
	}

	clock.Step(leafLife + time.Minute)
	ensure(issuer(second))
	if got := bundled(); len(got) != 1 || !got[0].Equal(second.known().current.cert) {
		t.Errorf("the bundle has %d certificates after the life of the last old one, want the new one alone", len(got))
	}
}

func TestInherited(t *testing.T) {
	_, clock := newWorld(t)
	now := clock.Now()
	root := func(at time.Time) pair {
		t.Helper()
		made, err := newAuthorityPair(at)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	older, lost, current, later := root(now.Add(-72*time.Hour)), root(now.Add(-48*time.Hour)), root(now), root(now.Add(time.Hour))
	server, err := lost.sign(Leaf{CommonName: "h", Hosts: []string{"h"}, Usage: x509.ExtKeyUsageServerAuth}, now.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	encode := func(certs ...*x509.Certificate) []byte {
		t.Helper()
		encoded, err := certutil.EncodeCertificates(certs...)
		if err != nil {
			t.Fatal(err)
		}
		return encoded
	}
	young := keyring{current: current}
	aged := root(now.Add(-leafLife - 2*time.Hour))
	cases := map[string]struct {
		ring   keyring
		bundle []byte
		at     time.Time
		want   []*x509.Certificate
	}{
		"no bundle":                   {young, nil, now, nil},
		"cut off":                     {young, append(encode(lost.cert), encode(lost.cert)[100:]...), now, []*x509.Certificate{lost.cert}},
		"of no certificate":           {young, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), now, nil},
		"its own":                     {young, encode(current.cert), now, nil},
		"one lost":                    {young, encode(lost.cert), now, []*x509.Certificate{lost.cert}},
		"two lost, one of them twice": {young, encode(current.cert, lost.cert, older.cert, lost.cert), now, []*x509.Certificate{lost.cert, older.cert}},
		"at the end of a leaf's life": {young, encode(lost.cert), now.Add(leafLife - time.Minute), []*x509.Certificate{lost.cert}},
		"after a leaf's life":         {young, encode(lost.cert), now.Add(leafLife + time.Minute), nil},
		"expired":                     {keyring{current: root(lost.cert.NotAfter)}, encode(lost.cert), lost.cert.NotAfter, nil},
		"no authority":                {young, encode(server.cert), now, nil},
		"younger than ours":           {young, encode(later.cert), now, nil},
		"after a rotation":            {keyring{current: current, previous: []*x509.Certificate{aged.cert}}, encode(lost.cert), now, nil},
		"before a rotation":           {keyring{current: aged, next: &current}, encode(lost.cert), now, nil},
		"after a finished rotation":   {keyring{current: current, closed: true}, encode(lost.cert), now, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := tc.ring.inherited(tc.bundle, tc.at)
			if diff := cmp.Diff(subjects(tc.want), subjects(got)); diff != "" {
				t.Errorf("inherited (-want +got):\n%s", diff)
			}
		})
	}
}

func subjects(certs []*x509.Certificate) []string {
	var names []string
	for _, cert := range certs {
		names = append(names, cert.Subject.CommonName)
	}
	return names
}
