package pool

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/certs"
	"github.com/workpulling/workpulling/internal/children"
	"github.com/workpulling/workpulling/internal/flowstats"
	"github.com/workpulling/workpulling/internal/metrics"
	"github.com/workpulling/workpulling/test/builders"
	"github.com/workpulling/workpulling/test/certmanager"
)

// No worker is made before cert-manager has given the pool's certificate, whose absence the pool explains; after that they are.
func TestWorkersWaitForTheIssuer(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(certmanager.Kind)
	list := certmanager.Kind
	list.Kind += "List"
	scheme.AddKnownTypeWithName(certmanager.Kind, &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(list, &unstructured.UnstructuredList{})
	pool := builders.MakePool("packers", "shop", "orders").Replicas(2).UID("pool-uid").Generation(1).Obj()
	b := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(pool, kind).
		WithObjects(pool, builders.MakeFlow("orders", "shop").UID("flow-uid").Obj())
	if err := addIndexes(t.Context(), indexes{b}); err != nil {
		t.Fatal(err)
	}
	c, clock := b.Build(), clocktesting.NewFakeClock(time.Now().Truncate(time.Second))
	authority := certs.NewAuthority(c, types.NamespacedName{Namespace: "system", Name: "ca"}, clock, logr.Discard())
	if err := authority.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	recorder, made := events.NewFakeRecorder(100), 0
	r := &Reconciler{
		Client: c, Live: c, Recorder: recorder, Stats: flowstats.NewRegistry(clock, 10*time.Second), Clock: clock,
		Issuer: &certs.Issuer{
			Authority: authority, Clock: clock, Keeper: children.Keeper{Client: c, Live: c}, Pause: time.Minute,
			Outside: &certs.Outside{Ref: certs.IssuerRef{Group: "cert-manager.io", Kind: "ClusterIssuer", Name: "corporate"}, Client: c},
		},
		Metrics: metrics.NewOperator(prometheus.NewRegistry(), authority),
		BackOff: flowcontrol.NewFakeBackOff(time.Second, time.Minute, clock), memory: newMemory(),
		NewName: func(pool string) string { made++; return fmt.Sprintf("%s-%d", pool, made) },
	}
	manager := &certmanager.Manager{Client: c, Clock: clock, Deny: "not for shop"}
	settle := func() *v1alpha1.WorkerPool {
		t.Helper()
		for range 120 {
			clock.Step(time.Second)
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pool)}); err != nil {
				t.Fatal(err)
			}
			if err := manager.Answer(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		observed := &v1alpha1.WorkerPool{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(pool), observed); err != nil {
			t.Fatal(err)
		}
		return observed
	}
	ready := meta.FindStatusCondition(settle().Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason != v1alpha1.ReasonCertificatePending || !strings.Contains(ready.Message, "not for shop") {
		t.Errorf("Ready is %+v", ready)
	}
	if made != 0 {
		t.Errorf("%d workers were made", made)
	}
	told := 0
	for len(recorder.Events) > 0 {
		if strings.Contains(<-recorder.Events, "CertificateTrouble") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told %d times, want once", told)
	}
	ca, err := certmanager.NewCA("corporate", clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	manager.Deny, manager.Issuers = "", map[string]*certmanager.CA{"corporate": ca}
	clock.Step(10 * time.Minute)
	settle()
	var pods corev1.PodList
	if err := c.List(t.Context(), &pods, client.InNamespace("shop")); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 2 {
		t.Errorf("%d workers, want 2", len(pods.Items))
	}
}
