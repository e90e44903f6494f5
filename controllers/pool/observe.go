package pool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/podbuilder"
	"github.com/workpulling/workpulling/internal/children"
	"github.com/workpulling/workpulling/internal/podhealth"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/internal/workercontrol"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// asking is how many workers are asked at a time.
const asking = 16

// observation is the world around one pool.
type observation struct {
	pool        *v1alpha1.WorkerPool
	sources     []pullSource // by name
	namespaceOf *metav1.PartialObjectMetadata
	// namespaceGoes says that the pool is deleted, and its namespace too.
	namespaceGoes bool
	autoscalers   []autoscalingv2.HorizontalPodAutoscaler
	snapshot      Snapshot
	// unable is why nothing can be done for the pool now, its running workers aside.
	unable podhealth.Problem
	// certificateTrouble is what a person has to look at before the certificate ends.
	certificateTrouble string
}

func (r *Reconciler) observe(ctx context.Context, pool *v1alpha1.WorkerPool, known *remembered) (*observation, error) {
	o := &observation{pool: pool}
	var err error
	if o.sources, err = r.sourcesOf(ctx, pool); err != nil {
		return nil, err
	}
	autoscalers, err := r.autoscalersOf(ctx, pool)
	if err != nil {
		return nil, err
	}
	o.autoscalers = autoscalers
	if pool.DeletionTimestamp != nil {
		if err := r.observeNamespace(ctx, o); err != nil {
			return nil, err
		}
	}
	pods, err := r.podsOf(ctx, pool, known)
	if err != nil {
		return nil, err
	}
	if o.snapshot, err = r.snapshot(pool, pods, known); err != nil {
		return nil, err
	}
	if err := r.observeLeases(ctx, o, known); err != nil {
		return nil, err
	}
	o.snapshot.Failing = o.failing()
	o.snapshot.MayCreate = o.mayCreate() && !r.BackOff.IsInBackOffSinceUpdate(string(pool.UID), r.Clock.Now())
	r.ask(ctx, o, !known.trusted)
	known.trusted = true
	return o, nil
}

// observeNamespace finds out whether the namespace of a deleted pool is being deleted too.
func (r *Reconciler) observeNamespace(ctx context.Context, o *observation) (err error) {
	if r.Confined {
		o.namespaceGoes, err = children.Terminating(ctx, r.Direct, o.pool.Namespace)
		return err
	}
	o.namespaceOf = &metav1.PartialObjectMetadata{}
	o.namespaceOf.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.Client.Get(ctx, types.NamespacedName{Name: o.pool.Namespace}, o.namespaceOf); err != nil {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	o.namespaceGoes = o.namespaceOf.DeletionTimestamp != nil
	return nil
}

// podsOf lists the pods that the pool controls, whatever their labels say now.
func (r *Reconciler) podsOf(ctx context.Context, pool *v1alpha1.WorkerPool, known *remembered) ([]corev1.Pod, error) {
	reader, options := client.Reader(r.Client), []client.ListOption{client.InNamespace(pool.Namespace), client.MatchingFields{IndexController: string(pool.UID)}}
	if !known.trusted {
		reader, options = r.Live, []client.ListOption{client.InNamespace(pool.Namespace), client.MatchingLabels{v1alpha1.LabelRole: v1alpha1.RoleWorker}}
	}
	var list corev1.PodList
	if err := reader.List(ctx, &list, options...); err != nil {
		return nil, fmt.Errorf("listing the workers: %w", err)
	}
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !metav1.IsControlledBy(&p, pool) })
	seen := map[types.UID]string{}
	for i := range pods {
		if pods[i].DeletionTimestamp == nil {
			seen[pods[i].UID] = pods[i].Name
		}
	}
	for uid, name := range known.known {
		if _, found := seen[uid]; found || slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.UID == uid }) {
			continue
		}
		// It is gone, or it has lost the label that the cache selects by.
		var pod corev1.Pod
		err := r.Live.Get(ctx, types.NamespacedName{Namespace: pool.Namespace, Name: name}, &pod)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("looking for worker %s: %w", name, err)
		}
		if err == nil && pod.UID == uid && metav1.IsControlledBy(&pod, pool) && pod.DeletionTimestamp == nil && !podhealth.IsTerminal(&pod) {
			pods = append(pods, pod)
			seen[uid] = name
		}
	}
	known.keep(seen)
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods, nil
}

func (r *Reconciler) snapshot(pool *v1alpha1.WorkerPool, pods []corev1.Pod, known *remembered) (Snapshot, error) {
	revision, err := podbuilder.WorkerRevision(pool)
	if err != nil {
		return Snapshot{}, err
	}
	runtimeRevision, err := podbuilder.Runtime{Image: r.Image, Resources: pool.Spec.Runtime.Resources}.Revision()
	if err != nil {
		return Snapshot{}, err
	}
	desired := int(pool.DesiredReplicas())
	surge, unavailable, err := pace(pool.Spec.Update, desired)
	if err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{
		Desired: desired, MaxSurge: surge, MaxUnavailable: unavailable,
		Revision: revision, RuntimeRevision: runtimeRevision,
		RollRuntime:  pool.Spec.Runtime.UpdatePolicy == v1alpha1.UpdateRolling,
		Paused:       pool.IsPaused(),
		Deleting:     pool.DeletionTimestamp != nil,
		DrainTimeout: time.Duration(pool.Spec.Drain.TimeoutSeconds) * time.Second,
	}
	for i := range pods {
		s.Workers = append(s.Workers, r.worker(pool, &pods[i], known))
	}
	return s, nil
}

func (r *Reconciler) worker(pool *v1alpha1.WorkerPool, pod *corev1.Pod, known *remembered) Worker {
	now := r.Clock.Now()
	_, draining := pod.Annotations[v1alpha1.AnnotationDraining]
	_, askedFor := pod.Annotations[v1alpha1.AnnotationVictim]
	w := Worker{
		Name: pod.Name, UID: string(pod.UID), Age: now.Sub(pod.CreationTimestamp.Time),
		Revision: pod.Labels[v1alpha1.LabelRevision], RuntimeRevision: pod.Annotations[v1alpha1.AnnotationRuntimeRevision],
		Terminating: pod.DeletionTimestamp != nil, Terminal: podhealth.IsTerminal(pod),
		Started: podhealth.RuntimeStarted(pod), Ready: podhealth.IsReady(pod),
		Counted:  pod.Labels[v1alpha1.LabelPoolUID] == string(pool.UID),
		Draining: draining, AskedFor: askedFor, pod: pod,
	}
	w.Mislabelled = !w.Counted || !labels.SelectorFromSet(lifelong(pool, pod)).Matches(labels.Set(pod.Labels))
	if w.leaving() {
		w.DrainingFor = known.drainingFor(pod.UID, now)
	}
	return w
}

// lifelong are the labels that a worker keeps as long as it is there. One of an earlier version may lack some.
func lifelong(pool *v1alpha1.WorkerPool, pod *corev1.Pod) labels.Set {
	want := labels.Set{v1alpha1.LabelPool: pool.Name, v1alpha1.LabelRole: v1alpha1.RoleWorker}
	return labels.Merge(want, podbuilder.FlowLabels(pod))
}

// pace resolves surge and unavailable as a Deployment does: never both 0.
func pace(update v1alpha1.UpdateSpec, desired int) (surge, unavailable int, err error) {
	quarter := intstr.FromString("25%")
	surge, err = intstr.GetScaledValueFromIntOrPercent(ptr.To(ptr.Deref(update.MaxSurge, quarter)), desired, true)
	if err != nil {
		return 0, 0, fmt.Errorf("reading update.maxSurge: %w", err)
	}
	unavailable, err = intstr.GetScaledValueFromIntOrPercent(ptr.To(ptr.Deref(update.MaxUnavailable, quarter)), desired, false)
	if err != nil {
		return 0, 0, fmt.Errorf("reading update.maxUnavailable: %w", err)
	}
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable, nil
}

// ask fills in the answers of the workers that the plan depends on, or of all.
func (r *Reconciler) ask(ctx context.Context, o *observation, all bool) {
	wanted := map[string]bool{}
	for _, w := range askAbout(o.snapshot) {
		wanted[w.UID] = true
	}
	var group errgroup.Group
	group.SetLimit(asking)
	for i := range o.snapshot.Workers {
		w := &o.snapshot.Workers[i]
		if !w.Started || w.Terminating || w.Terminal || !all && !wanted[w.UID] {
			continue
		}
		group.Go(func() error {
			status, err := r.Control.Status(ctx, r.target(o.pool, w))
			if err == nil {
				w.Work = workOf(status)
			}
			return nil
		})
	}
	// The functions return no error: a worker that does not answer is busy.
	_ = group.Wait()
}

func (r *Reconciler) target(pool *v1alpha1.WorkerPool, w *Worker) workercontrol.Target {
	return workercontrol.Target{Namespace: pool.Namespace, PodUID: w.UID, PodIP: w.pod.Status.PodIP, Host: runtimeconfig.WorkerHost(pool.Name, pool.Namespace)}
}

func workOf(status *protocolv1.WorkerStatus) *Work {
	return &Work{
		// unsettled covers the running and the buffered ones; the larger is taken, so that a sidecar that counts otherwise is not called idle.
		InFlight: int(max(status.Unsettled, status.Running+status.Buffered)),
		Idle:     time.Duration(status.IdleSeconds) * time.Second,
		Cordoned: status.Cordoned, Draining: status.Draining, Drained: status.Drained,
	}
}

func (r *Reconciler) autoscalersOf(ctx context.Context, pool *v1alpha1.WorkerPool) ([]autoscalingv2.HorizontalPodAutoscaler, error) {
	var list autoscalingv2.HorizontalPodAutoscalerList
	if err := r.Client.List(ctx, &list, client.InNamespace(pool.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the autoscalers: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(h autoscalingv2.HorizontalPodAutoscaler) bool {
		target := h.Spec.ScaleTargetRef
		return target.Kind != v1alpha1.KindWorkerPool || target.Name != pool.Name || !strings.HasPrefix(target.APIVersion, v1alpha1.GroupVersion.Group+"/")
	}), nil
}
