package pool

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/podbuilder"
	"github.com/workpulling/workpulling/internal/certs"
	"github.com/workpulling/workpulling/internal/children"
	"github.com/workpulling/workpulling/internal/flowstats"
	"github.com/workpulling/workpulling/internal/metrics"
	"github.com/workpulling/workpulling/internal/workercontrol"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/test/builders"
)

const (
	thousand      = 1000
	thousandImage = "workpulling/runtime:test"
)

// fleet is a pool of a thousand ready workers of one flow, with everything that its reconciler writes.
type fleet struct {
	t        *testing.T
	clock    *clocktesting.FakeClock
	registry *flowstats.Registry
	r        *Reconciler
	pool     types.NamespacedName
	asked    atomic.Int64
	writes   []string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, clock: clocktesting.NewFakeClock(time.Now()), pool: types.NamespacedName{Namespace: "shop", Name: "packers"}}
	f.registry = flowstats.NewRegistry(f.clock, 10*time.Second)
	c := f.cluster()
	authority := certs.NewAuthority(fake.NewClientBuilder().WithScheme(clientscheme.Scheme).Build(),
		types.NamespacedName{Namespace: "workpulling-system", Name: "workpulling-ca"}, f.clock, logr.Discard())
	if err := authority.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.r = &Reconciler{
		Client: c, Live: c, Recorder: events.NewFakeRecorder(10 * thousand), Control: f, Stats: f.registry, Clock: f.clock,
		Issuer:  &certs.Issuer{Authority: authority, Clock: f.clock, Keeper: children.Keeper{Client: c, Live: c}},
		Metrics: metrics.NewOperator(prometheus.NewRegistry(), authority),
		BackOff: flowcontrol.NewBackOff(time.Second, time.Minute), Image: thousandImage,
		NewName: func(string) string { t.Error("a worker is made"); return "another" }, memory: newMemory(),
	}
	f.registry.OnPublish(func(types.NamespacedName) { f.reconcile() })
	return f
}

// cluster is an API server that counts what is written.
func (f *fleet) cluster() client.Client {
	f.t.Helper()
	scheme := runtime.NewScheme()
	if err := clientscheme.AddToScheme(scheme); err != nil {
		f.t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		f.t.Fatal(err)
	}
	wrote := func(verb string, o client.Object) { f.writes = append(f.writes, fmt.Sprintf("%s %T", verb, o)) }
	pool := builders.MakePool(f.pool.Name, f.pool.Namespace, "orders").Replicas(thousand).UID("pool-uid").Generation(1).Obj()
	b := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(pool).
		WithObjects(pool, builders.MakeFlow("orders", f.pool.Namespace).UID("flow-uid").Obj()).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
				wrote("create", o)
				return c.Create(ctx, o, options...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
				wrote("patch", o)
				return c.Patch(ctx, o, p, options...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
				wrote("delete", o)
				return c.Delete(ctx, o, options...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, part string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
				wrote("patch "+part, o)
				return c.SubResource(part).Patch(ctx, o, p, options...)
			},
		})
	for i := range thousand {
		b.WithObjects(f.worker(pool, i))
	}
	if err := addIndexes(f.t.Context(), indexes{b}); err != nil {
		f.t.Fatal(err)
	}
	return b.Build()
}

// worker is a pod that runs and is ready.
func (f *fleet) worker(pool *v1alpha1.WorkerPool, i int) *corev1.Pod {
	f.t.Helper()
	pod, err := podbuilder.WorkerPod(pool, thousandImage, fmt.Sprintf("packers-%04d", i))
	if err != nil {
		f.t.Fatal(err)
	}
	pod.UID, pod.CreationTimestamp = types.UID(fmt.Sprintf("uid-%04d", i)), metav1.NewTime(f.clock.Now().Add(-time.Hour))
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	for _, c := range pod.Spec.InitContainers {
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	}
	return pod
}

// indexes are those that the manager's cache has.
type indexes struct{ b *fake.ClientBuilder }

func (i indexes) IndexField(_ context.Context, o client.Object, field string, by client.IndexerFunc) error {
	i.b.WithIndex(o, field, by)
	return nil
}

// Status implements Control: every worker runs something.
func (f *fleet) Status(context.Context, workercontrol.Target) (*protocolv1.WorkerStatus, error) {
	f.asked.Add(1)
	return &protocolv1.WorkerStatus{Unsettled: 1}, nil
}

// CordonIfIdle implements Control.
func (f *fleet) CordonIfIdle(context.Context, workercontrol.Target) (bool, error) {
	f.t.Error("a worker is cordoned")
	return false, nil
}

// StartDrain implements Control.
func (f *fleet) StartDrain(context.Context, workercontrol.Target) error {
	f.t.Error("a worker is drained")
	return nil
}

// Uncordon implements Control.
func (f *fleet) Uncordon(context.Context, workercontrol.Target) error { return nil }

func (f *fleet) reconcile() {
	f.t.Helper()
	if _, err := f.r.Reconcile(f.t.Context(), reconcile.Request{NamespacedName: f.pool}); err != nil {
		f.t.Fatal(err)
	}
}

// report is what the producer says in a second: the whole fleet is bound, and n workers of it are busy.
func (f *fleet) report(second, n int) {
	stats := &protocolv1.FlowStats{
		PodUid: "producer", Epoch: 1, QueueAvailable: true, BacklogJobs: int64(second), InFlight: int64(n), ConfirmedTotal: uint64(second) * 5000,
	}
	for i := range thousand {
		w := &protocolv1.BoundWorker{PodUid: fmt.Sprintf("uid-%04d", i)}
		if i < n {
			w.InFlight = 1
		}
		stats.Workers = append(stats.Workers, w)
	}
	f.registry.Accept(types.NamespacedName{Namespace: f.pool.Namespace, Name: "orders"}, stats)
}

// A pool of a thousand busy workers costs one status patch an interval of ten seconds, whatever its jobs do, and nothing where nothing
// changes (B-268).
func TestAThousandWorkersCostOneStatusPatchAnInterval(t *testing.T) {
	f := newFleet(t)
	f.report(0, 1)
	f.reconcile()
	if f.asked.Load() != thousand { // a new operator cannot know what its predecessor began
		t.Errorf("%d workers asked by the first look, want all", f.asked.Load())
	}
	for _, w := range f.writes {
		if strings.HasSuffix(w, "*v1.Pod") {
			t.Errorf("the first look wrote: %s", w)
		}
	}

	f.writes = nil
	f.asked.Store(0)
	for range 2 {
		f.reconcile()
	}
	if len(f.writes) != 0 {
		t.Errorf("written where nothing changed: %v", f.writes)
	}

	const seconds, intervals = 60, 6
	for second := range seconds {
		f.clock.Step(time.Second)
		f.report(1+second, 1+second*7)
	}
	if len(f.writes) == 0 || len(f.writes) > intervals {
		t.Errorf("%d writes in %d s, want 1 to %d: %v", len(f.writes), seconds, intervals, f.writes)
	}
	for _, w := range f.writes {
		if w != "patch status *v1alpha1.WorkerPool" {
			t.Errorf("written under load: %s", w)
		}
	}
	if f.asked.Load() != 0 {
		t.Errorf("%d workers asked although none has to go", f.asked.Load())
	}
	var pool v1alpha1.WorkerPool
	if err := f.r.Client.Get(t.Context(), f.pool, &pool); err != nil {
		t.Fatal(err)
	}
	if s := pool.Status; *s.Ready != thousand || *s.Registered != thousand || *s.Busy < 300 {
		t.Errorf("%d ready, %d registered, %d busy: the status does not follow", *s.Ready, *s.Registered, *s.Busy)
	}
	t.Logf("%d writes for %d s of a thousand workers", len(f.writes), seconds)
}
