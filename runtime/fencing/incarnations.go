package fencing

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

var leases = coordinationv1.SchemeGroupVersion.WithResource("leases")

// Bounds of what is asked about single Leases, which the watch of all of them leaves little of.
const (
	lookRate, lookBurst = 10, 20
	lookTimeout         = 2 * time.Second
	// silenceFor is how long an API server that did not answer is not asked again, so that a whole pool binds at once while it is away.
	silenceFor = 5 * time.Second
)

// incarnations knows which process of each pod holds the pod's Lease.
type incarnations struct {
	namespace string
	resource  dynamic.ResourceInterface
	informer  cache.SharedIndexInformer
	limit     flowcontrol.PassiveRateLimiter
	now       func() time.Time
	over      func(podUID, bootNonce, reason string)
	// recalled are the pods of whose Leases an earlier process knew, changed is told of news for the next one.
	recalled []string
	changed  func(within time.Duration)

	mu          sync.Mutex
	sights      map[string]sight // by pod UID
	required    map[string]bool  // UIDs of the pods that were seen to need one
	silentUntil time.Time
}

// newIncarnations begins with what an earlier process saw.
func newIncarnations(o *Options, client dynamic.Interface, seen map[string]sight, changed func(time.Duration)) *incarnations {
	i := &incarnations{
		namespace: o.Namespace, resource: client.Resource(leases).Namespace(o.Namespace), now: o.Clock.Now, over: o.OnIncarnationOver,
		limit: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(lookRate, lookBurst, o.Clock), sights: map[string]sight{}, required: map[string]bool{},
		changed: changed,
	}
	maps.Copy(i.sights, seen)
	i.recalled = slices.Collect(maps.Keys(seen))
	i.informer = newLeaseCache(client, o.Namespace)
	return i
}

// watch makes the informer tell what it sees.
func (i *incarnations) watch() error {
	if err := i.informer.SetTransform(onlyHolder); err != nil {
		return err
	}
	_, err := i.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { i.saw(object) },
		UpdateFunc: func(_, object any) { i.saw(object) },
		DeleteFunc: i.sawDeletion,
	})
	return err
}

// compare waits until the API server has told of every Lease. Those of before that are not among them were deleted, and nobody else will say so.
func (i *incarnations) compare(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-i.informer.HasSyncedChecker().Done():
	}
	for _, podUID := range i.recalled {
		if _, there, err := i.informer.GetStore().GetByKey(i.namespace + "/" + runtimeconfig.WorkerLeaseName(podUID)); err == nil && !there {
			i.deleted(podUID, i.seen(podUID).UID)
		}
	}
}

// of is what is known of the Leases of pods, nil for nothing.
func (i *incarnations) of(pods []seenPod) (known map[string]sight) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, pod := range pods {
		s, found := i.sights[string(pod.UID)]
		if !found {
			continue
		}
		if known == nil {
			known = map[string]sight{}
		}
		known[string(pod.UID)] = s
	}
	return known
}

func (i *incarnations) saw(object any) {
	if lease, ok := object.(*unstructured.Unstructured); ok {
		i.take(podOfLease(lease.GetName()), recordOfObject(lease))
	}
}

func (i *incarnations) sawDeletion(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	lease, ok := object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	i.deleted(podOfLease(lease.GetName()), string(lease.GetUID()))
}

func (i *incarnations) deleted(podUID, uid string) {
	i.mu.Lock()
	next, ended := i.sights[podUID].deleted(uid)
	if ended != "" {
		i.sights[podUID] = next
	}
	i.mu.Unlock()
	i.changed(recordDeletions)
	i.tell(podUID, ended, "its Lease was deleted")
}

// take takes in what a Lease says.
func (i *incarnations) take(podUID string, lease LeaseRecord) {
	if podUID == "" {
		return
	}
	i.mu.Lock()
	before := i.sights[podUID]
	next, ended := before.see(podUID, lease)
	if next.Boot != "" {
		i.sights[podUID] = next
	}
	i.mu.Unlock()
	if next.Boot != before.Boot || next.UID != before.UID {
		i.changed(recordNews)
	}
	i.tell(podUID, ended, "a newer process of the pod holds its Lease")
}

func (i *incarnations) tell(podUID, ended, reason string) {
	if ended != "" {
		i.over(podUID, ended, reason)
	}
}

// forget drops what is known of a pod that is gone.
func (i *incarnations) forget(podUID string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.sights, podUID)
	delete(i.required, podUID)
}

// require notes that a pod has a Lease, whatever is known of that.
func (i *incarnations) require(podUID string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.required[podUID] = true
}

// requires says whether a pod is known to have a Lease.
func (i *incarnations) requires(podUID string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.required[podUID] || i.sights[podUID].Boot != ""
}

func (i *incarnations) seen(podUID string) sight {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.sights[podUID]
}

// judge says whether a process of a pod may bind, with one look at its Lease where nothing is known of that process.
func (i *incarnations) judge(ctx context.Context, who protocol.Incarnation) *transport.Refusal {
	j := judgeIncarnation(who.BootNonce, i.seen(who.PodUID), notLooked)
	if j.ask {
		outcome := i.look(ctx, who.PodUID)
		j = judgeIncarnation(who.BootNonce, i.seen(who.PodUID), outcome)
	}
	return j.refusal
}

// look asks the API server about the Lease of a pod.
func (i *incarnations) look(ctx context.Context, podUID string) look {
	if i.silent() {
		return lookSilent
	}
	if !i.limit.TryAccept() {
		return lookLimited
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	lease, err := i.resource.Get(ctx, runtimeconfig.WorkerLeaseName(podUID), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return lookAbsent
	case err != nil:
		i.mu.Lock()
		defer i.mu.Unlock()
		i.silentUntil = i.now().Add(silenceFor)
		return lookSilent
	}
	i.take(podUID, recordOfObject(lease))
	return lookFound
}

func (i *incarnations) silent() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.now().Before(i.silentUntil)
}

// AuthenticateIncarnation implements transport.IncarnationAuthenticator. A pod that was made without a Lease, by an operator of before, has
// nothing to hold.
func (g *Guard) AuthenticateIncarnation(ctx context.Context, worker delivery.Worker, bootNonce string) error {
	if !g.incarnations.requires(worker.PodUID) {
		return nil
	}
	return verdict{refusal: g.incarnations.judge(ctx, protocol.Incarnation{PodUID: worker.PodUID, BootNonce: bootNonce})}.err()
}

// podOfLease returns the UID of the pod whose Lease has this name, "" for a name that is none.
func podOfLease(name string) string {
	prefix := runtimeconfig.WorkerLeaseName("")
	if len(name) <= len(prefix) || name[:len(prefix)] != prefix {
		return ""
	}
	return name[len(prefix):]
}

// recordOfObject reads a Lease that came without its type.
func recordOfObject(lease *unstructured.Unstructured) LeaseRecord {
	holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	transitions, _, _ := unstructured.NestedInt64(lease.Object, "spec", "leaseTransitions")
	return LeaseRecord{UID: string(lease.GetUID()), Version: lease.GetResourceVersion(), Holder: holder, Transitions: int32(transitions)} //nolint:gosec // an int32 in the API
}

// onlyHolder drops what is not needed to tell who holds a Lease.
func onlyHolder(object any) (any, error) {
	lease, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	record := recordOfObject(lease)
	small := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": lease.GetAPIVersion(), "kind": lease.GetKind(),
		"spec": map[string]any{"holderIdentity": record.Holder, "leaseTransitions": int64(record.Transitions)},
	}}
	small.SetNamespace(lease.GetNamespace())
	small.SetName(lease.GetName())
	small.SetUID(lease.GetUID())
	small.SetResourceVersion(lease.GetResourceVersion())
	return small, nil
}

// newLeaseCache keeps who holds the Leases of the workers of a namespace.
func newLeaseCache(client dynamic.Interface, namespace string) cache.SharedIndexInformer {
	return newObjectCache(client, leases, namespace, v1alpha1.LabelRole+"="+v1alpha1.RoleWorker)
}
