package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/workpulling/workpulling/internal/children"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/test/certmanager"
)

var corporate = IssuerRef{Group: "cert-manager.io", Kind: "ClusterIssuer", Name: "corporate"}

// foreign is a cluster with cert-manager in which one producer gets its certificates.
type foreign struct {
	t       *testing.T
	c       client.WithWatch
	clock   *clocktesting.FakeClock
	manager *certmanager.Manager
	issuer  *Issuer
	serving Serving
}

func requestObject() *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(certmanager.Kind)
	return obj
}

// withManager is an API server that knows CertificateRequests.
func withManager(t *testing.T) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	list := certmanager.Kind
	list.Kind += "List"
	scheme.AddKnownTypeWithName(certmanager.Kind, &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(list, &unstructured.UnstructuredList{})
	return fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(requestObject()).Build()
}

func newCA(t *testing.T, now time.Time) *certmanager.CA {
	t.Helper()
	ca, err := certmanager.NewCA("corporate", now)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func newForeign(t *testing.T) *foreign {
	t.Helper()
	c, clock := withManager(t), clocktesting.NewFakeClock(time.Now().Truncate(time.Second))
	f := &foreign{
		t: t, c: c, clock: clock,
		manager: &certmanager.Manager{Client: c, Clock: clock, Issuers: map[string]*certmanager.CA{"corporate": newCA(t, clock.Now())}},
		issuer: &Issuer{
			Authority: newAuthority(t, c, clock), Keeper: children.Keeper{Client: c, Live: c}, Clock: clock, Pause: 3 * time.Minute,
			Outside: &Outside{Ref: corporate, Client: c},
		},
		serving: Serving{
			Namespace: "media", Entry: "a", Hosts: []string{"a.media.svc"},
			Owner: metav1.OwnerReference{APIVersion: "workpulling.dev/v1alpha1", Kind: "WorkPullingFlow", Name: "a", UID: "uid-a"},
		},
	}
	return f
}

func (f *foreign) ensure() Issued {
	f.t.Helper()
	out, err := f.issuer.Ensure(f.t.Context(), f.serving)
	if err != nil {
		f.t.Fatal(err)
	}
	if out.RenewIn <= 0 {
		f.t.Errorf("Ensure wants to be called again in %s", out.RenewIn)
	}
	return out
}

// settle lets cert-manager and the operator work for d.
func (f *foreign) settle(d time.Duration) (out Issued) {
	f.t.Helper()
	for end := f.clock.Now().Add(d); f.clock.Now().Before(end); f.clock.Step(time.Second) {
		out = f.ensure()
		if err := f.manager.Answer(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
	}
	return out
}

func (f *foreign) secret() map[string][]byte {
	f.t.Helper()
	secret, err := f.issuer.secret(f.t.Context(), "media")
	if err != nil {
		f.t.Fatal(err)
	}
	return secret.Data
}

func (f *foreign) entry() entry { return readEntry(f.secret(), "a") }

func (f *foreign) trusted() []*x509.Certificate {
	f.t.Helper()
	bundle, err := f.issuer.observedBundle(f.t.Context(), "media")
	if err != nil {
		f.t.Fatal(err)
	}
	return rootsIn(bundle)
}

func (f *foreign) trusts(cert *x509.Certificate) bool {
	return len(without([]*x509.Certificate{cert}, f.trusted())) == 0
}

func TestParseIssuerRef(t *testing.T) {
	for text, want := range map[string]IssuerRef{
		"":                         {},
		"ClusterIssuer/corporate":  corporate,
		"Issuer/team-a":            {"cert-manager.io", "Issuer", "team-a"},
		"Issuer.cert-manager.io/x": {"cert-manager.io", "Issuer", "x"},
		"AWSPCAClusterIssuer.awspca.cert-manager.io/pca": {"awspca.cert-manager.io", "AWSPCAClusterIssuer", "pca"},
	} {
		got, err := ParseIssuerRef(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if again, err := ParseIssuerRef(got.String()); err != nil || again != got {
			t.Errorf("%q does not come back from %q: %v", text, got, err)
		}
	}
	for _, text := range []string{"corporate", "ClusterIssuer/", "/corporate", "Certificate/x", "ClusterIssuer.cert-manager.io/Not A Name", "A./x", "clusterissuer/x"} {
		if got, err := ParseIssuerRef(text); err == nil {
			t.Errorf("%q passes for %+v", text, got)
		}
	}
}

// A new producer waits for cert-manager and then serves with what it gave, for the names and the life that the operator's own would have.
func TestAnIssuerOutsideGivesTheCertificate(t *testing.T) {
	f := newForeign(t)
	if out := f.ensure(); out.Missing == "" || !out.Expires.IsZero() || out.News {
		t.Errorf("before anybody was asked: %+v", out)
	}
	if out := f.settle(5 * time.Second); out.Missing != "" || out.Trouble != "" {
		t.Fatalf("after the answer: %+v", out)
	}
	cert, ok := verified(f.entry().cert, f.entry().key, poolOf(f.trusted()), f.serving.Hosts, f.clock.Now())
	if !ok || cert.CheckSignatureFrom(f.manager.Issuers["corporate"].Cert()) != nil {
		t.Fatal("the certificate is not the issuer's, or its peers refuse it")
	}
	if out := f.ensure(); out.RenewIn < 14*24*time.Hour || !out.Expires.Equal(cert.NotAfter) || cert.NotAfter.Sub(f.clock.Now()) < 29*24*time.Hour {
		t.Errorf("renewed in %s, valid until %s", out.RenewIn, out.Expires)
	}
	asked := requestObject()
	if err := f.c.Get(t.Context(), types.NamespacedName{Namespace: "media", Name: "a"}, asked); err != nil {
		t.Fatal(err)
	}
	if owners := asked.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != "uid-a" {
		t.Errorf("the request belongs to %v", owners)
	}
	if usages, _, _ := unstructured.NestedStringSlice(asked.Object, "spec", "usages"); fmt.Sprint(usages) != "[digital signature server auth]" {
		t.Errorf("usages %v", usages)
	}
	first := f.entry()
	f.clock.Step(leafLife/2 + time.Minute)
	f.settle(5 * time.Second)
	if bytes.Equal(f.entry().key, first.key) || f.manager.Issued != 2 {
		t.Errorf("half of the life is over; %d certificates were given", f.manager.Issued)
	}
	f.serving.RenewBefore = f.clock.Now()
	second := f.entry()
	f.settle(5 * time.Second)
	if bytes.Equal(f.entry().key, second.key) || f.manager.Issued != 3 {
		t.Errorf("a person asked; %d certificates were given", f.manager.Issued)
	}
	if f.settle(15 * time.Minute); f.manager.Issued != 3 {
		t.Errorf("what a person asked for once is done again: %d certificates", f.manager.Issued)
	}
}

// At rest nothing is written, and nobody at cert-manager is asked.
func TestAtRestNothingIsWritten(t *testing.T) {
	f := newForeign(t)
	f.settle(10 * time.Second)
	refuse := func() error { return fmt.Errorf("refused") }
	still := interceptor.NewClient(f.c, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return refuse() },
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return refuse()
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return refuse() },
	})
	f.issuer.Keeper = children.Keeper{Client: still, Live: still}
	f.issuer.Outside.Client = nil // a call would panic
	for range 100 {
		f.clock.Step(time.Hour)
		f.ensure()
	}
	// So does another leader, which remembers nothing.
	f.issuer = &Issuer{Authority: f.issuer.Authority, Keeper: f.issuer.Keeper, Clock: f.clock, Pause: f.issuer.Pause, Outside: f.issuer.Outside}
	f.ensure()
}

// Whatever keeps cert-manager from answering is said, once, and never does the operator's own authority step in.
func TestWithoutAnAnswer(t *testing.T) {
	missing := &meta.NoKindMatchError{GroupKind: certmanager.Kind.GroupKind(), SearchedVersions: []string{"v1"}}
	create := func(err error) interceptor.Funcs {
		return interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return err }}
	}
	for name, tc := range map[string]struct {
		manager func(*certmanager.Manager)
		calls   *interceptor.Funcs
		want    string
	}{
		"not installed": {calls: &interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return fmt.Errorf("mapping: %w", missing)
		}}, want: "cert-manager is not installed"},
		"uninstalled": {calls: ref(create(apierrors.NewNotFound(schema.GroupResource{}, ""))), want: "cert-manager is not installed"},
		"no right":    {calls: ref(create(apierrors.NewForbidden(schema.GroupResource{Group: "cert-manager.io", Resource: "certificaterequests"}, "a", nil))), want: "forbidden"},
		"no issuer":   {manager: func(m *certmanager.Manager) { m.Issuers = nil }, want: `Referenced "ClusterIssuer" not found: "corporate"`},
		"denied":      {manager: func(m *certmanager.Manager) { m.Deny = "no policy allows a.media.svc" }, want: "was denied: no policy allows a.media.svc"},
		"silent":      {manager: func(m *certmanager.Manager) { m.Mute = true }, want: "has no answer from cert-manager"},
		"no authority": {manager: func(m *certmanager.Manager) { m.Edit = func(status map[string]any) { delete(status, "ca") } },
			want: "status.ca of CertificateRequest a holds no certificate"},
		"another's": {manager: func(m *certmanager.Manager) {
			m.Edit = func(status map[string]any) {
				if _, given := status["ca"]; given {
					other, _ := certmanager.NewCA("other", m.Clock.Now())
					status["ca"] = base64.StdEncoding.EncodeToString(other.PEM())
				}
			}
		}, want: "cannot serve"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForeign(t)
			if tc.manager != nil {
				tc.manager(f.manager)
			}
			if tc.calls != nil {
				f.issuer.Outside.Client = interceptor.NewClient(f.c, *tc.calls)
			}
			news := 0
			var out Issued
			for end := f.clock.Now().Add(5 * time.Minute); f.clock.Now().Before(end); f.clock.Step(time.Second) {
				out = f.ensure()
				if out.News {
					news++
				}
				if err := f.manager.Answer(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if !strings.Contains(out.Missing, tc.want) || !strings.Contains(out.Trouble, tc.want) || news != 1 {
				t.Errorf("missing %q, trouble %q, told %d times; want once %q", out.Missing, out.Trouble, news, tc.want)
			}
			if len(f.entry().cert) > 0 {
				t.Error("there is a certificate")
			}
			if tc.calls != nil {
				return
			}
			f.manager.Issuers = map[string]*certmanager.CA{"corporate": newCA(t, f.clock.Now())}
			f.manager.Deny, f.manager.Mute, f.manager.Edit = "", false, nil
			if out := f.settle(askAgain + time.Minute); out.Missing != "" || out.Trouble != "" {
				t.Errorf("after it was mended: %+v", out)
			}
		})
	}
}

// A renewal that does not come leaves the certificate that is there, and says until when it lasts.
func TestARenewalThatDoesNotCome(t *testing.T) {
	f := newForeign(t)
	f.settle(5 * time.Second)
	first := f.entry()
	f.manager.Deny = "not today"
	f.clock.Step(leafLife/2 + time.Minute)
	out := f.settle(5 * time.Second)
	if out.Missing != "" || !strings.Contains(out.Trouble, "not today") || !strings.Contains(out.Trouble, out.Expires.UTC().Format(time.RFC3339)) {
		t.Errorf("got %+v", out)
	}
	if !bytes.Equal(f.entry().cert, first.cert) {
		t.Error("the certificate changed")
	}
	f.clock.Step(leafLife / 2)
	if out := f.ensure(); out.Missing == "" {
		t.Error("nobody says that the certificate has ended")
	}
}

// An issuer whose certificates do not last is told of, and is not asked all the time.
func TestAnIssuerWithShortCertificates(t *testing.T) {
	f := newForeign(t)
	f.manager.Life = 5 * time.Minute
	out := f.settle(5 * time.Second)
	if out.Missing != "" || !strings.Contains(out.Trouble, "5m0s") {
		t.Errorf("got %+v", out)
	}
	for range 30 * 60 {
		if out := f.settle(time.Second); out.Missing != "" {
			t.Fatal(out.Missing)
		}
	}
	if f.manager.Issued < 10 || f.manager.Issued > 14 {
		t.Errorf("%d certificates in half an hour", f.manager.Issued)
	}
}

// A certificate that is nearly over when it comes is not replaced all the time.
func TestRenewFrom(t *testing.T) {
	since := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct{ begun, left, want time.Duration }{
		"new":         {0, leafLife, leafLife / 2},
		"backdated":   {time.Hour, 30 * time.Hour, 15 * time.Hour},
		"half over":   {10 * time.Hour, 4 * time.Hour, 2 * time.Hour},
		"nearly over": {10 * time.Hour, 30 * time.Second, time.Minute},
	} {
		cert := &x509.Certificate{NotBefore: since.Add(-tc.begun), NotAfter: since.Add(tc.left)}
		if got := renewFrom(entry{since: since}, cert).Sub(since); got != tc.want {
			t.Errorf("%s: renewed after %s, want %s", name, got, tc.want)
		}
	}
}

// Another process goes on where the former one ended, with the same key: an approval by a person may have taken a day.
func TestAnotherLeaderGoesOn(t *testing.T) {
	f := newForeign(t)
	f.manager.Mute = true
	f.settle(5 * time.Second)
	key := f.entry().nextKey
	f.issuer = &Issuer{Authority: f.issuer.Authority, Keeper: f.issuer.Keeper, Clock: f.clock, Pause: f.issuer.Pause, Outside: f.issuer.Outside}
	f.manager.Mute = false
	f.settle(5 * time.Second)
	if !bytes.Equal(f.entry().key, key) || f.manager.Issued != 1 {
		t.Errorf("the request was made again: %d certificates", f.manager.Issued)
	}
}

// What belongs to somebody else is left alone.
func TestARequestOfSomebodyElse(t *testing.T) {
	f := newForeign(t)
	theirs := request(f.serving)
	theirs.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "x", UID: "other"}})
	if err := f.c.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	f.manager.Mute = true
	if out := f.settle(5 * time.Second); !strings.Contains(out.Missing, "belongs to something else") {
		t.Errorf("got %+v", out)
	}
	if err := f.c.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs); err != nil || theirs.GetOwnerReferences()[0].UID != "other" {
		t.Errorf("it was touched: %v", err)
	}
}

// A Secret that somebody deletes takes no trust from what pods still serve with.
func TestALostSecretKeepsTrust(t *testing.T) {
	f := newForeign(t)
	f.settle(10 * time.Second)
	former := f.manager.Issuers["corporate"]
	f.manager.Issuers["corporate"] = newCA(t, f.clock.Now().Add(time.Minute))
	f.manager.Mute = true
	if err := f.c.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "media", Name: runtimeconfig.TLSSecretName}}); err != nil {
		t.Fatal(err)
	}
	for range 300 {
		if f.settle(time.Second); !f.trusts(former.Cert()) {
			t.Fatal("the former authority is not trusted any more")
		}
	}
	f.manager.Mute = false
	if f.settle(2 * time.Minute); !f.trusts(former.Cert()) || !f.trusts(f.manager.Issuers["corporate"].Cert()) {
		t.Error("within the pause, both have to be trusted")
	}
	if f.settle(f.issuer.Pause + time.Minute); f.trusts(former.Cert()) {
		t.Error("the former authority is trusted on")
	}
}

// With the last entry goes everything, what is being asked for included.
func TestForgetAnEntryOfAnIssuerOutside(t *testing.T) {
	f := newForeign(t)
	f.settle(5 * time.Second)
	f.serving.RenewBefore = f.clock.Now()
	f.manager.Mute = true
	f.settle(5 * time.Second)
	if err := f.issuer.Forget(t.Context(), "media", "a"); err != nil {
		t.Fatal(err)
	}
	if data := f.secret(); len(data) > 0 {
		t.Errorf("left over: %v", data)
	}
}

// Whoever gets certificates of the issuer does not verify as the operator.
func TestTheOperatorsOwnAuthorityAlone(t *testing.T) {
	f := newForeign(t)
	f.settle(5 * time.Second)
	observed := bundle("media")
	if err := f.c.Get(t.Context(), client.ObjectKeyFromObject(observed), observed); err != nil {
		t.Fatal(err)
	}
	narrow := rootsIn([]byte(observed.Data[runtimeconfig.OperatorCAKey]))
	if len(narrow) != 1 || !narrow[0].Equal(f.issuer.Authority.known().current.cert) {
		t.Errorf("the operator is verified by %d authorities", len(narrow))
	}
	if len(f.trusted()) != 2 {
		t.Errorf("servers are verified by %d authorities, want both", len(f.trusted()))
	}
}

func ref[T any](v T) *T { return &v }

// switching is the fabric with cert-manager: pods that see every change late, and an operator that is configured anew now and then.
type switching struct {
	*fabric
	manager *certmanager.Manager
	ref     *IssuerRef
}

func newSwitching(t *testing.T, seed uint64, pause time.Duration) *switching {
	t.Helper()
	s := &switching{manager: &certmanager.Manager{}}
	s.fabric = newFabricOn(t, seed, pause, withManager(t), func(i *Issuer) {
		i.Pause = pause
		if s.ref != nil {
			i.Outside = &Outside{Ref: *s.ref, Client: s.fabricClient()}
		}
	})
	s.manager.Client, s.manager.Clock = s.c, s.clock
	s.manager.Issuers = map[string]*certmanager.CA{"corporate": newCA(t, s.clock.Now()), "another": newCA(t, s.clock.Now().Add(time.Second))}
	s.also = func() {
		if err := s.manager.Answer(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *switching) fabricClient() client.Client { return s.c }

// to configures the operator anew, which starts it anew.
func (s *switching) to(name string) {
	s.ref = nil
	if name != "" {
		s.ref = &IssuerRef{Group: "cert-manager.io", Kind: "ClusterIssuer", Name: name}
	}
	s.lead()
}

// signedBy says whether every pod serves with a certificate of the authority, and whether it trusts others than want.
func (s *switching) check(ca *x509.Certificate, roots int) {
	s.t.Helper()
	for _, p := range s.pods {
		if p.leaf.CheckSignatureFrom(ca) != nil {
			s.t.Errorf("seed %d: %s/%s serves with a certificate of %s", s.seed, p.namespace, p.entry, p.leaf.Issuer.CommonName)
		}
		if got := len(rootsIn([]byte(p.bundle))); got != roots {
			s.t.Errorf("seed %d: %s/%s trusts %d authorities, want %d", s.seed, p.namespace, p.entry, got, roots)
		}
	}
}

// From the operator's own authority to an issuer outside, to that issuer with another authority, to another issuer, and back, with kubelets
// that are late and leaders that change: at every step everybody verifies everybody. In the end nothing of the former is trusted.
func TestSwitchingTheIssuer(t *testing.T) {
	s := newSwitching(t, rand.Uint64(), 3*time.Minute)
	own := s.current()
	s.pass(5*time.Minute, true)
	s.check(own, 1)
	s.to("corporate")
	s.pass(30*time.Minute, true)
	s.check(s.manager.Issuers["corporate"].Cert(), 2)
	s.manager.Issuers["corporate"] = newCA(t, s.clock.Now())
	s.renew = s.clock.Now()
	s.pass(30*time.Minute, true)
	s.check(s.manager.Issuers["corporate"].Cert(), 2)
	s.to("another")
	s.pass(30*time.Minute, true)
	s.check(s.manager.Issuers["another"].Cert(), 2)
	s.ask(s.clock.Now().UTC().Format(time.RFC3339)) // the operator's own authority rotates meanwhile
	s.pass(40*time.Minute, true)
	if s.current().Equal(own) {
		t.Errorf("seed %d: the operator's own authority did not rotate: phase %s", s.seed, s.rotation.Issuer.Authority.Phase())
	}
	s.check(s.manager.Issuers["another"].Cert(), 2)
	s.to("")
	s.pass(30*time.Minute, true)
	s.check(s.current(), 1)
	if len(s.refused) > 0 {
		t.Errorf("seed %d: refused: %v", s.seed, s.refused)
	}
}

// Without the pause pods do refuse each other: the test above can fail.
func TestSwitchingWithoutAPauseIsNoticed(t *testing.T) {
	s := newSwitching(t, 1, 0)
	s.to("corporate")
	s.pass(10*time.Minute, false)
	if len(s.refused) == 0 {
		t.Errorf("seed %d: nobody was refused", s.seed)
	}
}
