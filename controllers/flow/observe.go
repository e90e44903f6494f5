package flow

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/podbuilder"
	"github.com/workpulling/workpulling/controllers/pool"
	"github.com/workpulling/workpulling/internal/children"
	"github.com/workpulling/workpulling/internal/flowstats"
	"github.com/workpulling/workpulling/internal/podhealth"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// observation is the world around one flow. A nil member is absent in the cluster.
type observation struct {
	flow *v1alpha1.WorkPullingFlow
	// namespace is looked at for a deleted flow alone. A Confined operator may not read it: it is nil then where it is being deleted, and
	// empty otherwise.
	namespace *metav1.PartialObjectMetadata
	set       *appsv1.StatefulSet
	// pods are those of the StatefulSet, by name. pod is the one that has the queue, or else one that could tell why none has it.
	pods  []corev1.Pod
	pod   *corev1.Pod
	claim *corev1.PersistentVolumeClaim
	pools []v1alpha1.WorkerPool
	stats flowstats.Snapshot
	// silent says that the producer has not reported for longer than a reconnect takes.
	silent bool
	// refusal is why the StatefulSet's pod is not made.
	refusal podhealth.Problem
	// storage is what is known of the volume's class, where the volume is not bound.
	storage storage
	// nodeLost names the node of an unready producer, where the node is gone or not ready.
	nodeLost string
	// lost are the pods of a shared queue that are on nodes which are gone or unreachable.
	lost []corev1.Pod
}

func (r *Reconciler) observe(ctx context.Context, flow *v1alpha1.WorkPullingFlow) (*observation, error) {
	o := &observation{flow: flow}
	producer := types.NamespacedName{Namespace: flow.Namespace, Name: runtimeconfig.ProducerName(flow.Name)}
	var err error
	if o.set, err = get(ctx, r.Client, producer, &appsv1.StatefulSet{}); err != nil {
		return nil, err
	}
	if err := r.observePods(ctx, o); err != nil {
		return nil, err
	}
	if flow.DeletionTimestamp != nil {
		if o.namespace, err = r.namespaceOf(ctx, flow); err != nil {
			return nil, err
		}
	}
	var pools v1alpha1.WorkerPoolList
	if err := r.Client.List(ctx, &pools, client.InNamespace(flow.Namespace), client.MatchingFields{pool.IndexFlow: flow.Name}); err != nil {
		return nil, fmt.Errorf("listing the pools: %w", err)
	}
	o.pools = pools.Items
	r.observeReports(o)
	if err := r.observeVolume(ctx, o); err != nil {
		return nil, err
	}
	return o, r.observeTrouble(ctx, o)
}

func (r *Reconciler) namespaceOf(ctx context.Context, flow *v1alpha1.WorkPullingFlow) (*metav1.PartialObjectMetadata, error) {
	meta := &metav1.PartialObjectMetadata{}
	if r.Settings.Confined {
		terminating, err := children.Terminating(ctx, r.Direct, flow.Namespace)
		if terminating || err != nil {
			return nil, err
		}
		return meta, nil
	}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return get(ctx, r.Client, types.NamespacedName{Name: flow.Namespace}, meta)
}

// observePods lists the pods of the producer.
func (r *Reconciler) observePods(ctx context.Context, o *observation) error {
	if o.set == nil {
		return nil
	}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(o.flow.Namespace), client.MatchingLabels(podbuilder.ProducerLabels(o.flow))); err != nil {
		return fmt.Errorf("listing the producer's pods: %w", err)
	}
	o.pods = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, o.set) })
	slices.SortFunc(o.pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// choosePod finds the pod that has the queue, by its report, or else the first that is ready, or else the first.
func (o *observation) choosePod() {
	for _, fits := range []func(*corev1.Pod) bool{
		func(p *corev1.Pod) bool { return string(p.UID) == o.stats.Stats.GetPodUid() },
		podhealth.IsReady,
		func(*corev1.Pod) bool { return true },
	} {
		for i := range o.pods {
			if fits(&o.pods[i]) {
				o.pod = &o.pods[i]
				return
			}
		}
	}
}

// observeReports takes the reports of this very flow; those of a namesake that was deleted do not count.
func (r *Reconciler) observeReports(o *observation) {
	o.stats, _ = r.Stats.Published(client.ObjectKeyFromObject(o.flow))
	foreign := func(s *protocolv1.FlowStats) bool { return s.GetFlowUid() != string(o.flow.UID) }
	if foreign(o.stats.Stats) {
		o.stats.Stats, o.stats.Connected, o.stats.At = nil, false, time.Time{}
	}
	if foreign(o.stats.Former) {
		o.stats.Former = nil
	}
	o.stats.Standbys = slices.DeleteFunc(slices.Clone(o.stats.Standbys), foreign)
	o.choosePod()
	if o.pod == nil || o.stats.Stats.GetPodUid() != string(o.pod.UID) {
		// It comes from a pod that is gone, or goes on without the cluster's knowledge.
		o.stats.Connected = false
	}
	lastWord := r.started
	if o.stats.At.After(lastWord) {
		lastWord = o.stats.At
	}
	if o.pod != nil {
		for _, c := range o.pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.LastTransitionTime.After(lastWord) {
				lastWord = c.LastTransitionTime.Time
			}
		}
	}
	o.silent = !o.stats.Connected && r.Clock.Since(lastWord) > silentAfter
}

func (r *Reconciler) observeVolume(ctx context.Context, o *observation) error {
	if !o.flow.Spec.Queue.HasVolume() {
		return nil
	}
	var err error
	if o.claim, err = get(ctx, r.Client, types.NamespacedName{Namespace: o.flow.Namespace, Name: claimName(o.flow)}, &corev1.PersistentVolumeClaim{}); err != nil {
		return err
	}
	if o.claim == nil {
		// One that a person restored has not our labels yet, and the cache does not hold it.
		if o.claim, err = get(ctx, r.Live, types.NamespacedName{Namespace: o.flow.Namespace, Name: claimName(o.flow)}, &corev1.PersistentVolumeClaim{}); err != nil {
			return err
		}
	}
	if o.claim != nil && o.claim.Status.Phase == corev1.ClaimBound || r.Settings.Confined {
		return nil
	}
	var classes storagev1.StorageClassList
	if err := r.Live.List(ctx, &classes); err != nil {
		return fmt.Errorf("listing the StorageClasses: %w", err)
	}
	o.storage = storageOf(o.flow, classes.Items)
	// A name with a slash, such as that of a provisioner in Kubernetes' own tree, cannot be a CSI driver's.
	if o.set == nil && o.storage.provisioner != "" && !strings.Contains(o.storage.provisioner, "/") {
		driver, err := get(ctx, r.Live, types.NamespacedName{Name: o.storage.provisioner}, &storagev1.CSIDriver{})
		if err != nil {
			return err
		}
		o.storage.csi = driver != nil
	}
	return nil
}

// observeTrouble looks closer where the producer is not there.
func (r *Reconciler) observeTrouble(ctx context.Context, o *observation) error {
	if !o.wantsPod() {
		return nil
	}
	if o.pod == nil {
		if r.Clock.Since(o.set.CreationTimestamp.Time) > podGrace {
			o.refusal = r.tryPod(ctx, o.set)
		}
		return nil
	}
	if o.flow.Spec.Queue.IsShared() && !r.Settings.Confined {
		if err := r.observeLost(ctx, o); err != nil {
			return err
		}
	}
	if podhealth.IsReady(o.pod) || o.pod.Spec.NodeName == "" || r.Settings.Confined {
		return nil
	}
	node, err := get(ctx, r.Live, types.NamespacedName{Name: o.pod.Spec.NodeName}, &corev1.Node{})
	if err != nil {
		return err
	}
	if node == nil || !nodeReady(node) {
		o.nodeLost = o.pod.Spec.NodeName
	}
	return nil
}

// wantsPod says whether there is a StatefulSet that should have a pod.
func (o *observation) wantsPod() bool { return o.set != nil && ptr.Deref(o.set.Spec.Replicas, 1) > 0 }

// tryPod asks the API server whether it would take the pod of a StatefulSet. The StatefulSet's controller says why not in Events alone.
func (r *Reconciler) tryPod(ctx context.Context, set *appsv1.StatefulSet) podhealth.Problem {
	pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = set.Namespace, set.Name+"-0"
	for _, claim := range set.Spec.VolumeClaimTemplates {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-" + pod.Name},
		}})
	}
	err := r.Direct.Create(ctx, pod, client.DryRunAll)
	if err == nil || apierrors.IsAlreadyExists(err) {
		return podhealth.Problem{}
	}
	return podhealth.Refusal(err)
}

func nodeReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// get returns nil for an object that is not there.
func get[T client.Object](ctx context.Context, from client.Reader, key types.NamespacedName, into T) (T, error) {
	var none T
	err := from.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("reading %T %s: %w", into, key.Name, err)
	}
	return into, nil
}

const (
	// silentAfter is how long a producer may be without a stream before its silence is worth a condition.
	silentAfter = 30 * time.Second
	// podGrace is how long the StatefulSet's controller may take to make a pod before we ask why it does not.
	podGrace = 5 * time.Second
)
