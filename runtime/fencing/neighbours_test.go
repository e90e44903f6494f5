package fencing

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// town is a namespace with pods, and Neighbours that watch it.
type town struct {
	t       *testing.T
	client  *dynamicfake.FakeDynamicClient
	clock   *clocktesting.FakePassiveClock
	trusted atomic.Bool
	looks   atomic.Int64
	broken  atomic.Bool // the API server answers nothing that is asked for an address
	*Neighbours
}

func newTown(t *testing.T, objects ...runtime.Object) *town {
	t.Helper()
	w := &town{t: t, clock: clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))}
	w.client = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{pods: "PodList"}, objects...)
	w.client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.(clienttesting.ListAction).GetListRestrictions().Fields.Empty() {
			return false, nil, nil
		}
		w.looks.Add(1)
		if w.broken.Load() {
			return true, nil, errors.New("connection refused")
		}
		return false, nil, nil
	})
	w.trusted.Store(true)
	w.Neighbours = newNeighbours(Options{Namespace: "shop", Clock: w.clock, Log: logr.Discard(), TrustNamespace: w.trusted.Load}, w.client)
	return w
}

func (w *town) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.run(ctx)
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
	})
}

// from is what becomes of a caller from an address: the account, or the label of the refusal.
func (w *town) from(address string) string {
	w.t.Helper()
	by, err := w.Admit(w.t.Context(), netip.MustParseAddr(address))
	if err == nil {
		if !by.Neighbour || by.Member {
			w.t.Errorf("%s is %+v", address, by)
		}
		return by.Subject
	}
	refusal, ok := errors.AsType[*transport.Refusal](err)
	if !ok || refusal.RetryAfter <= 0 || (refusal.Code == protocol.RefusedUnavailable) != (refusal.Label == transport.LabelAddressUnchecked) {
		w.t.Fatalf("%s: %v", address, err)
	}
	return string(refusal.Label)
}

func (w *town) until(address, want string) {
	w.t.Helper()
	transporttest.Eventually(w.t, address+" is "+want, func() bool { return w.from(address) == want })
}

func TestNobodyIsANeighbourBeforeTheWatchHasToldOfAll(t *testing.T) {
	w := newTown(t, podAt("web", "10.0.0.1"))
	if got := w.from("10.0.0.1"); got != "address-unchecked" {
		t.Errorf("before the watch: %s", got)
	}
	w.start()
	w.until("10.0.0.1", "web-account")
	if n := w.looks.Load(); n != 0 {
		t.Errorf("%d questions about an address that the watch knows", n)
	}
	if got := w.Outcomes(); got[Admitted] == 0 || got["address-unchecked"] == 0 {
		t.Errorf("%v", got)
	}
}

// The watch is behind the cluster: a new pod is found by one look, and what the watch contradicts is believed of the look alone.
func TestAnAddressIsLookedUpBeforeItIsRefused(t *testing.T) {
	w := newTown(t, podAt("web", "10.0.0.1"))
	w.start()
	w.until("10.0.0.1", "web-account")
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	if got := w.from("10.9.9.9"); got != "address-unknown" || w.looks.Load() != 1 {
		t.Errorf("%s after %d looks", got, w.looks.Load())
	}
	w.client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		list := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*podAt("young", "10.9.9.9")}}
		list.SetAPIVersion("v1")
		list.SetKind("PodList")
		return !action.(clienttesting.ListAction).GetListRestrictions().Fields.Empty(), list, nil
	})
	if got := w.from("10.9.9.9"); got != "young-account" {
		t.Errorf("a pod that the watch has not told of: %s", got)
	}
	if got := w.from("10.8.8.8"); got != "address-unknown" {
		t.Errorf("an answer about another address lets in: %s", got)
	}
}

func TestAPodThatGoesIsANeighbourNoMore(t *testing.T) {
	w := newTown(t, podAt("web", "10.0.0.1"), podAt("api", "10.0.0.2"))
	w.start()
	w.until("10.0.0.1", "web-account")
	resource := w.client.Resource(pods).Namespace("shop")
	if _, err := resource.Update(t.Context(), altered(podAt("api", "10.0.0.2"), "Failed", "status", "phase"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.until("10.0.0.2", "address-finished")
	if err := resource.Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.until("10.0.0.1", "address-unknown")
}

// A flood of callers from nowhere costs the API server a bounded number of questions, and nobody who is known anything.
func TestAFloodOfStrangersIsBounded(t *testing.T) {
	w := newTown(t, podAt("web", "10.0.0.1"))
	w.start()
	w.until("10.0.0.1", "web-account")
	before := w.looks.Load()
	for range 10 * lookBurst {
		_ = w.from("10.9.9.9")
	}
	if n := w.looks.Load() - before; n > lookBurst {
		t.Errorf("%d questions, want %d at most", n, lookBurst)
	}
	if got := w.from("10.9.9.9"); got != "address-unchecked" {
		t.Errorf("a stranger that nobody looked up is %s", got)
	}
	if got := w.from("10.0.0.1"); got != "web-account" {
		t.Errorf("a neighbour during a flood: %s", got)
	}
}

// What is known of addresses outlives a moment without the API server, and no long one: addresses are given to others meanwhile.
func TestAddressesAreNotBelievedForEver(t *testing.T) {
	w := newTown(t, podAt("web", "10.0.0.1"))
	w.start()
	w.until("10.0.0.1", "web-account")
	w.broken.Store(true)
	w.clock.SetTime(w.clock.Now().Add(addressesTrusted))
	if got := w.from("10.0.0.1"); got != "web-account" {
		t.Errorf("after %s: %s", addressesTrusted, got)
	}
	if got := w.from("10.9.9.9"); got != "address-unchecked" {
		t.Errorf("a stranger while nothing answers: %s", got)
	}
	w.clock.SetTime(w.clock.Now().Add(time.Second))
	if got := w.from("10.0.0.1"); got != "address-unchecked" {
		t.Errorf("after more than %s: %s", addressesTrusted, got)
	}
	if _, err := w.client.Resource(pods).Namespace("shop").Create(t.Context(), podAt("new", "10.0.0.3"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.until("10.0.0.1", "web-account") // heard again
}

func TestTheSwitchOpensAndClosesTheWatch(t *testing.T) {
	w := newTown(t, podAt("web", "10.0.0.1"))
	w.trusted.Store(false)
	w.start()
	if got := w.from("10.0.0.1"); got != "address-unchecked" || w.Trusted() {
		t.Errorf("while the switch is off: %s", got)
	}
	w.trusted.Store(true)
	w.until("10.0.0.1", "web-account")
	w.trusted.Store(false)
	w.until("10.0.0.1", "address-unchecked")
	for _, action := range w.client.Actions() {
		if action.GetVerb() != "list" && action.GetVerb() != "watch" {
			t.Errorf("%s of %s", action.GetVerb(), action.GetResource())
		}
	}
}
