package flow

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/certs"
	"github.com/workpulling/workpulling/internal/children"
	"github.com/workpulling/workpulling/internal/conditions"
	"github.com/workpulling/workpulling/internal/flowstats"
	"github.com/workpulling/workpulling/internal/metrics"
	"github.com/workpulling/workpulling/internal/patch"
	"github.com/workpulling/workpulling/internal/podhealth"
)

// +kubebuilder:rbac:groups=workpulling.dev,resources=workpullingflows,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=workpulling.dev,resources=workpullingflows/status,verbs=patch
// +kubebuilder:rbac:groups=workpulling.dev,resources=workpullingflows/finalizers,verbs=update
// +kubebuilder:rbac:groups=workpulling.dev,resources=workerpools,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=list
// +kubebuilder:rbac:groups=storage.k8s.io,resources=csidrivers,verbs=get
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=workpulling-token-reviewer,verbs=bind
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=localsubjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create

const (
	// retryEvery is how often a flow that is not as it should be is looked at without an event of the API.
	retryEvery = 15 * time.Second
	// restEvery is how often one at rest is.
	restEvery = 10 * time.Minute
)

// Reconciler reconciles WorkPullingFlows.
type Reconciler struct {
	// Client reads from the cache and waits there for its own writes; Live reads from the API server; Direct has no cache at all, for
	// requests that store nothing.
	Client   client.Client
	Live     client.Reader
	Direct   client.Client
	Recorder events.EventRecorder
	Issuer   *certs.Issuer
	Stats    *flowstats.Registry
	Metrics  *metrics.Operator
	Clock    clock.PassiveClock
	Settings Settings

	started  time.Time
	verified *verified
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile brings one flow in line with its spec.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	flow, err := r.read(ctx, request.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if flow == nil {
		r.Metrics.ForgetFlow(request.Namespace, request.Name)
		return ctrl.Result{}, nil
	}
	if flow.DeletionTimestamp != nil && len(flow.Finalizers) == 0 {
		return ctrl.Result{}, nil
	}
	if flow.DeletionTimestamp == nil {
		if _, err := patch.AddFinalizer(ctx, r.Client, flow, v1alpha1.FinalizerFlow); err != nil {
			return ctrl.Result{}, err
		}
	}
	o, err := r.observe(ctx, flow)
	if err != nil {
		return ctrl.Result{}, err
	}
	p, err := makePlan(o, r.Settings)
	if err != nil {
		return ctrl.Result{}, err
	}
	if p.ending.release {
		return ctrl.Result{}, r.release(ctx, o, p.ending.why)
	}
	a, applyErr := r.apply(ctx, o, p)
	if children.NamespaceTerminating(applyErr) {
		return ctrl.Result{}, nil
	}
	ready, statusErr := r.writeStatus(ctx, o, p, a)
	if err := errors.Join(applyErr, statusErr); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: o.nextLook(ready, a)}, nil
}

// read returns nil for a flow that is gone. One that is being deleted is read from the API server: the cache may not have seen yet that it
// was let go, and what is made then, nobody would remove.
func (r *Reconciler) read(ctx context.Context, key types.NamespacedName) (*v1alpha1.WorkPullingFlow, error) {
	flow, err := get(ctx, r.Client, key, &v1alpha1.WorkPullingFlow{})
	if err != nil || flow == nil || flow.DeletionTimestamp == nil {
		return flow, err
	}
	return get(ctx, r.Live, key, &v1alpha1.WorkPullingFlow{})
}

// nextLook is when the flow has to be looked at without an event of the API.
func (o *observation) nextLook(ready bool, a applied) time.Duration {
	next := retryEvery
	switch {
	case ready:
		next = restEvery
	case o.wantsPod() && o.pod == nil && o.refusal.Reason == "":
		next = podGrace // to ask why it is not made
	}
	if a.renewIn > 0 {
		next = min(next, a.renewIn)
	}
	return next
}

func (r *Reconciler) writeStatus(ctx context.Context, o *observation, p plan, a applied) (ready bool, err error) {
	after := o.flow.DeepCopy()
	var changed []conditions.Transition
	after.Status, changed = makeStatus(o, p, a)
	news := o.newsOf(&after.Status)
	write := patch.Status
	if len(news) > 0 {
		write = patch.StatusOnce // whoever writes that it was told tells it
	}
	wrote, err := write(ctx, r.Client, o.flow, after)
	if client.IgnoreNotFound(err) != nil {
		return false, err
	}
	if wrote {
		r.Metrics.StatusWrite(v1alpha1.KindWorkPullingFlow)
	}
	s := o.stats.Stats
	r.Metrics.Flow(o.flow.Namespace, o.flow.Name, o.stats.Connected, s.GetBacklogJobs(), s.GetInFlight(), s.GetDeadLetters())
	if note := lossNote(&o.flow.Status, &after.Status); note != "" {
		r.Recorder.Eventf(o.flow, nil, corev1.EventTypeWarning, "JobsLost", "Counting", "%s", note)
	}
	if note := takeoverNote(&o.flow.Status, &after.Status); note != "" {
		r.Recorder.Eventf(o.flow, nil, corev1.EventTypeNormal, "QueueTakenOver", "TakingOver", "%s", note)
	}
	announce(r.Recorder, o.flow, news, changed)
	for _, c := range after.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady {
			ready = c.Status == "True"
		}
	}
	return ready && o.pod != nil && podhealth.IsReady(o.pod) && o.stats.Connected && o.crewComplete(), nil
}
