package certs

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	certutil "k8s.io/client-go/util/cert"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/children"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// kubeletLag is how late a change of a Secret or ConfigMap comes into a pod at worst.
const kubeletLag = 90 * time.Second

// mounted is what a pod sees: what was written up to kubeletLag ago, the certificate and the bundle each in its own time.
type mounted struct {
	namespace, entry      string
	leaf                  *x509.Certificate
	roots, narrow         *x509.CertPool // of servers, and of the operator alone
	leafAt, rootsAt       time.Time      // when kubelet looks again
	leafEvery, rootsEvery time.Duration
	version, bundle       string // of what is mounted
}

// fabric is a cluster with pods that trust each other, in which the authority rotates.
type fabric struct {
	t        *testing.T
	c        client.Client
	clock    *clocktesting.FakeClock
	random   *rand.Rand
	pause    time.Duration
	recorder *events.FakeRecorder

	rotation *Rotation
	second   *Authority // another replica of the operator, which only follows
	pods     []*mounted
	refused  map[string]bool
	seen     []Phase
	every    time.Duration // how long a step is
	state    string        // of what was verified last

	seed      uint64
	configure func(*Issuer)
	also      func()    // happens in each step besides
	renew     time.Time // what a person asks for of every flow and pool
}

func newFabric(t *testing.T, seed uint64, pause time.Duration) *fabric {
	t.Helper()
	c, _ := newWorld(t)
	return newFabricOn(t, seed, pause, c, func(*Issuer) {})
}

func newFabricOn(t *testing.T, seed uint64, pause time.Duration, c client.Client, configure func(*Issuer)) *fabric {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Now())
	f := &fabric{
		t: t, c: c, clock: clock, seed: seed, configure: configure, also: func() {}, random: rand.New(rand.NewPCG(seed, 0)), pause: pause, recorder: events.NewFakeRecorder(1000), refused: map[string]bool{},
		every: syncEvery,
	}
	f.lead()
	f.second = newAuthority(t, c, clock)
	for _, namespace := range []string{"media", "shop"} {
		for _, entry := range []string{"a", "b", "c"} {
			f.pods = append(f.pods, &mounted{
				namespace: namespace, entry: entry,
				leafEvery: f.upTo(kubeletLag), rootsEvery: f.upTo(kubeletLag),
			})
		}
	}
	f.reconcile(1)
	f.mount()
	f.clock.Step(2 * time.Second) // a certificate knows whole seconds only
	return f
}

func (f *fabric) upTo(d time.Duration) time.Duration {
	return time.Duration(f.random.Int64N(int64(d))) + time.Second
}

// lead makes a new leader, which has forgotten how long it waited.
func (f *fabric) lead() {
	authority := newAuthority(f.t, f.c, f.clock)
	f.rotation = &Rotation{
		Issuer: &Issuer{Authority: authority, Keeper: children.Keeper{Client: f.c, Live: f.c}, Clock: f.clock},
		Pause:  f.pause, Clock: f.clock, Recorder: f.recorder, Log: logr.Discard(),
	}
	f.configure(f.rotation.Issuer)
}

// reconcile looks at each pod's owner with some chance.
func (f *fabric) reconcile(chance float64) {
	f.t.Helper()
	for _, p := range f.pods {
		if f.random.Float64() > chance {
			continue
		}
		if _, err := f.rotation.Issuer.Ensure(f.t.Context(), Serving{
			Namespace: p.namespace, Entry: p.entry, Hosts: []string{p.entry}, RenewBefore: f.renew, Owner: metav1.OwnerReference{UID: types.UID(p.entry)},
		}); err != nil {
			f.t.Fatal(err)
		}
	}
}

// mount is kubelet.
func (f *fabric) mount() {
	f.t.Helper()
	now := f.clock.Now()
	for _, p := range f.pods {
		if !now.Before(p.leafAt) {
			var secret corev1.Secret
			if err := f.c.Get(f.t.Context(), client.ObjectKey{Namespace: p.namespace, Name: runtimeconfig.TLSSecretName}, &secret); err != nil {
				f.t.Fatal(err)
			}
			have, err := decode(secret.Data[p.entry+".crt"], secret.Data[p.entry+".key"])
			if err != nil {
				f.t.Fatal(err)
			}
			p.leaf, p.leafAt = have.cert, now.Add(p.leafEvery)
			p.version = have.cert.SerialNumber.String()
		}
		if !now.Before(p.rootsAt) {
			var bundle corev1.ConfigMap
			if err := f.c.Get(f.t.Context(), client.ObjectKey{Namespace: p.namespace, Name: runtimeconfig.CAConfigMapName}, &bundle); err != nil {
				f.t.Fatal(err)
			}
			roots, err := certutil.NewPoolFromBytes([]byte(bundle.Data["ca.crt"]))
			if err != nil {
				f.t.Fatal(err)
			}
			if p.narrow, err = certutil.NewPoolFromBytes([]byte(bundle.Data[runtimeconfig.OperatorCAKey])); err != nil {
				f.t.Fatal(err)
			}
			p.roots, p.rootsAt = roots, now.Add(p.rootsEvery)
			p.bundle = bundle.Data["ca.crt"] + bundle.Data[runtimeconfig.OperatorCAKey]
		}
	}
}

// meet lets everyone connect to everyone: pods to the pods of their namespace, the operator's replicas to pods, and pods to those.
func (f *fabric) meet() {
	f.t.Helper()
	state := f.current().SerialNumber.String() + f.second.known().current.cert.SerialNumber.String() +
		fmt.Sprint(len(f.rotation.Issuer.Authority.known().trusted()), len(f.second.known().trusted()))
	for _, p := range f.pods {
		state += p.version + p.bundle
	}
	if state == f.state {
		return
	}
	f.state = state
	trust := func(what string, cert *x509.Certificate, host string, roots *x509.CertPool, usage x509.ExtKeyUsage) {
		options := x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: f.clock.Now(), KeyUsages: []x509.ExtKeyUsage{usage}}
		if _, err := cert.Verify(options); err != nil {
			f.refused[what] = true
		}
	}
	for _, p := range f.pods {
		for _, q := range f.pods {
			if p.namespace == q.namespace {
				trust("pod to pod", q.leaf, q.entry, p.roots, x509.ExtKeyUsageServerAuth)
			}
		}
		for _, replica := range []*Authority{f.rotation.Issuer.Authority, f.second} {
			reader := &Issuer{Authority: replica, Keeper: f.rotation.Issuer.Keeper}
			roots, err := reader.Roots(f.t.Context(), p.namespace)
			if err != nil {
				f.t.Fatal(err)
			}
			trust("operator to pod", p.leaf, p.entry, roots, x509.ExtKeyUsageServerAuth)
			own, err := replica.Certificate(Leaf{CommonName: "operator", Hosts: []string{"operator"}, Usage: x509.ExtKeyUsageServerAuth})
			if err != nil {
				f.t.Fatal(err)
			}
			trust("pod to operator", own.Leaf, "operator", p.narrow, x509.ExtKeyUsageServerAuth)
			client, err := replica.Certificate(Leaf{CommonName: "operator's client", Usage: x509.ExtKeyUsageClientAuth})
			if err != nil {
				f.t.Fatal(err)
			}
			trust("the operator's client", client.Leaf, "", p.narrow, x509.ExtKeyUsageClientAuth)
		}
	}
}

// pass lets time go by in steps of five seconds, in which everything happens in its own time.
func (f *fabric) pass(d time.Duration, restarts bool) {
	f.t.Helper()
	for range int(d / f.every) {
		f.clock.Step(f.every)
		if restarts && f.random.IntN(100) == 0 {
			f.lead()
		}
		if err := f.rotation.Step(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
		if phase := f.rotation.Issuer.Authority.Phase(); len(f.seen) == 0 || f.seen[len(f.seen)-1] != phase {
			f.seen = append(f.seen, phase)
		}
		if f.random.IntN(2) == 0 { // it reads again every five seconds, in its own time
			if err := f.second.Sync(f.t.Context()); err != nil {
				f.t.Fatal(err)
			}
		}
		f.reconcile(0.3)
		f.also()
		f.mount()
		f.meet()
	}
}

// ask annotates the Secret of the authority, as a person does.
func (f *fabric) ask(value string) {
	f.t.Helper()
	secret := authoritySecret()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationRenewBefore, value)
	if err := f.c.Patch(f.t.Context(), secret, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fabric) told() (reasons []string) {
	for {
		select {
		case event := <-f.recorder.Events:
			reasons = append(reasons, strings.Fields(event)[1])
		default:
			return reasons
		}
	}
}

func (f *fabric) current() *x509.Certificate { return f.rotation.Issuer.Authority.known().current.cert }

func phases(list []Phase) string { return fmt.Sprint(list) }

// A person asks for a new authority. Nobody is refused at any moment, whatever kubelets and a change of the leader do, and in the end the
// former one is trusted by nobody.
func TestRotationOnDemand(t *testing.T) {
	for range 2 {
		seed := rand.Uint64()
		f := newFabric(t, seed, 3*time.Minute)
		first := f.current()
		old := f.pods[0].leaf
		f.pass(5*time.Minute, true)
		if !f.current().Equal(first) {
			t.Fatalf("seed %d: it rotated before anybody asked", seed)
		}
		f.ask(f.clock.Now().UTC().Format(time.RFC3339))
		f.pass(40*time.Minute, true)
		if got, want := phases(f.seen), phases([]Phase{PhaseNone, PhaseAnnounced, PhaseReplacing, PhaseNone}); got != want {
			t.Errorf("seed %d: phases %s, want %s", seed, got, want)
		}
		if len(f.refused) > 0 {
			t.Errorf("seed %d: refused: %v", seed, f.refused)
		}
		if got, want := fmt.Sprint(f.told()), "[AuthorityAnnounced AuthoritySigns AuthorityWithdrawn]"; got != want {
			t.Errorf("seed %d: told %s, want %s", seed, got, want)
		}
		for _, p := range f.pods {
			if _, err := old.Verify(x509.VerifyOptions{Roots: p.roots, CurrentTime: f.clock.Now()}); err == nil {
				t.Errorf("seed %d: %s/%s still trusts the former authority", seed, p.namespace, p.entry)
			}
		}
		if stored := authorityOf(t, f.c); stored.Annotations[annotationPhase] != string(PhaseNone) || len(stored.Data[keyPreviousCert]) > 0 {
			t.Errorf("seed %d: the Secret says %v", seed, stored.Annotations)
		}
		second := f.current()
		f.pass(10*time.Minute, true)
		if !f.current().Equal(second) {
			t.Errorf("seed %d: what a person asked for once is done again", seed)
		}
		// Asked again, by somebody in a hurry.
		f.ask(f.clock.Now().UTC().Format(time.RFC3339))
		f.pass(40*time.Minute, true)
		if f.current().Equal(second) || len(f.refused) > 0 {
			t.Errorf("seed %d: asked again: refused %v, or not done", seed, f.refused)
		}
	}
}

func authorityOf(t *testing.T, c client.Client) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := c.Get(t.Context(), authorityKey, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

// Without the pause pods do refuse each other: the test above can fail.
func TestRotationWithoutAPauseIsNoticed(t *testing.T) {
	seed := rand.Uint64()
	f := newFabric(t, seed, 0)
	f.ask(f.clock.Now().UTC().Format(time.RFC3339))
	f.pass(10*time.Minute, false)
	if len(f.refused) == 0 {
		t.Errorf("seed %d: nobody was refused", seed)
	}
}

// By itself an authority rotates at half of its life, and its successor is announced for a day, whoever leads.
func TestRotationInTime(t *testing.T) {
	seed := rand.Uint64()
	f := newFabric(t, seed, 3*time.Minute)
	first := f.current()
	f.clock.Step(first.NotAfter.Sub(first.NotBefore)/2 + time.Hour)
	f.reconcile(1)
	f.clock.Step(2 * kubeletLag)
	f.mount()
	f.every = 10 * time.Minute
	f.pass(23*time.Hour, false)
	if phase := f.rotation.Issuer.Authority.Phase(); phase != PhaseAnnounced || !f.current().Equal(first) {
		t.Fatalf("seed %d: phase %s in the first day", seed, phase)
	}
	f.lead()
	f.pass(time.Hour, false)
	f.every = syncEvery
	f.pass(30*time.Minute, false)
	if phase := f.rotation.Issuer.Authority.Phase(); phase != PhaseNone || f.current().Equal(first) || len(f.refused) > 0 {
		t.Errorf("seed %d: phase %s after a day, refused %v", seed, phase, f.refused)
	}
}

// A certificate that nobody replaces holds the former authority for as long as it is valid.
func TestRotationWaitsForTheLastCertificate(t *testing.T) {
	f := newFabric(t, 1, 3*time.Minute)
	lost := f.pods[0]
	f.pods = f.pods[1:] // its reconciles fail
	f.ask(f.clock.Now().UTC().Format(time.RFC3339))
	f.pass(time.Hour, false)
	if phase := f.rotation.Issuer.Authority.Phase(); phase != PhaseReplacing {
		t.Fatalf("phase %s, though %s serves with a certificate of the former authority", phase, lost.entry)
	}
	f.clock.Step(leafLife)
	f.reconcile(1)
	f.clock.Step(2 * kubeletLag)
	f.mount()
	f.pass(10*time.Minute, false)
	if phase := f.rotation.Issuer.Authority.Phase(); phase != PhaseNone {
		t.Errorf("phase %s after that certificate has expired", phase)
	}
}

// A text that is no moment is an error, and no reason not to rotate in time.
func TestAMalformedWishIsAnError(t *testing.T) {
	f := newFabric(t, 1, 3*time.Minute)
	f.ask("now")
	err := f.rotation.Step(t.Context())
	if err == nil || !strings.Contains(err.Error(), v1alpha1.AnnotationRenewBefore) {
		t.Errorf("error %v", err)
	}
	f.clock.Step(6 * 365 * 24 * time.Hour)
	if err := f.rotation.Step(t.Context()); err == nil || f.rotation.Issuer.Authority.Phase() != PhaseAnnounced {
		t.Errorf("error %v, phase %s", err, f.rotation.Issuer.Authority.Phase())
	}
}

// Of two leaders, one of which does not know yet that it is none, one takes the step.
func TestTwoLeadersRotateOnce(t *testing.T) {
	f := newFabric(t, 1, 3*time.Minute)
	f.ask(f.clock.Now().UTC().Format(time.RFC3339))
	if err := f.rotation.Issuer.Authority.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	late := f.rotation
	f.lead()
	if err := f.rotation.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	ring := late.Issuer.Authority.known()
	next, err := newAuthorityPair(f.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	ring.next = &next
	if err := late.Issuer.Authority.replace(t.Context(), ring); err == nil {
		t.Error("a step that rests on an older state was written")
	}
}

func TestRenewBefore(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2026-12-01T07:00:00Z":        time.Date(2026, 12, 1, 7, 0, 0, 0, time.UTC),
		"2026-12-01T08:00:00.7+01:00": time.Date(2026, 12, 1, 7, 0, 0, 0, time.UTC),
		"now":                         {},
		"":                            {},
	} {
		got, err := RenewBefore(&metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationRenewBefore: text}})
		if !got.Equal(want) || (err == nil) == want.IsZero() {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if got, err := RenewBefore(&metav1.ObjectMeta{}); !got.IsZero() || err != nil {
		t.Errorf("without an annotation: %v, %v", got, err)
	}
}

// A bundle that cannot be written holds the rotation up: a pod that cannot be told of the successor would refuse it.
func TestRotationWaitsForEveryBundle(t *testing.T) {
	f := newFabric(t, 1, 3*time.Minute)
	f.ask(f.clock.Now().UTC().Format(time.RFC3339))
	f.rotation.Issuer.Keeper.Client = refusing{f.c, "shop"}
	for range 60 {
		f.clock.Step(syncEvery)
		if err := f.rotation.Step(t.Context()); err == nil {
			t.Fatal("no word of a bundle that cannot be written")
		}
	}
	if phase := f.rotation.Issuer.Authority.Phase(); phase != PhaseAnnounced {
		t.Errorf("phase %s, though a bundle does not hold the successor", phase)
	}
}

// refusing refuses to patch ConfigMaps of one namespace.
type refusing struct {
	client.Client
	namespace string
}

func (r refusing) Patch(ctx context.Context, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
	if _, bundle := obj.(*corev1.ConfigMap); bundle && obj.GetNamespace() == r.namespace {
		return errors.New("refused")
	}
	return r.Client.Patch(ctx, obj, patch, options...)
}
