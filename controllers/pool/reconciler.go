package pool

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/networkpolicy"
	"github.com/workpulling/workpulling/internal/certs"
	"github.com/workpulling/workpulling/internal/children"
	"github.com/workpulling/workpulling/internal/conditions"
	"github.com/workpulling/workpulling/internal/flowstats"
	"github.com/workpulling/workpulling/internal/metrics"
	"github.com/workpulling/workpulling/internal/patch"
	"github.com/workpulling/workpulling/internal/podhealth"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/internal/workercontrol"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// +kubebuilder:rbac:groups=workpulling.dev,resources=workerpools,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=workpulling.dev,resources=workerpools/status,verbs=patch
// +kubebuilder:rbac:groups=workpulling.dev,resources=workerpools/finalizers,verbs=update
// +kubebuilder:rbac:groups=workpulling.dev,resources=workpullingflows,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=workpulling-tls,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=workpulling.dev,resources=workerpools/leases,verbs=hold;hold-any
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const (
	// IndexController is the cache's index of pods by the UID of their controller, IndexFlow that of pools by the name of their flow.
	IndexController = "metadata.controllerUID"
	IndexFlow       = "spec.flows"

	// pollEvery is how often draining workers are asked.
	pollEvery = 2 * time.Second
	// mirrorEvery is how often a pool at rest looks at its autoscaler, whose changes bring no reconcile.
	mirrorEvery = 2 * time.Minute
)

// Control asks and commands the workers.
type Control interface {
	Status(context.Context, workercontrol.Target) (*protocolv1.WorkerStatus, error)
	CordonIfIdle(context.Context, workercontrol.Target) (bool, error)
	StartDrain(context.Context, workercontrol.Target) error
	Uncordon(context.Context, workercontrol.Target) error
}

// Reconciler reconciles WorkerPools.
type Reconciler struct {
	// Client reads from the cache and waits there for its own writes; Live reads from the API server; Direct has no cache at all, for
	// requests that store nothing.
	Client   client.Client
	Live     client.Reader
	Direct   client.Client
	Recorder events.EventRecorder
	Issuer   *certs.Issuer
	Control  Control
	Stats    *flowstats.Registry
	Metrics  *metrics.Operator
	Clock    clock.PassiveClock
	// BackOff delays creations that were refused, by the UID of the pool.
	BackOff *flowcontrol.Backoff
	// Image is the runtime's.
	Image string
	// Confined says that the operator has rights in namespaces alone, and so may not look at the namespaces themselves.
	Confined bool
	// Network says who may open connections to the workers.
	Network networkpolicy.Settings
	// NewName makes the name of a new worker.
	NewName func(pool string) string

	memory *memory
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile brings one pool in line with its spec.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var pool v1alpha1.WorkerPool
	if err := r.Client.Get(ctx, request.NamespacedName, &pool); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.Metrics.ForgetPool(request.Namespace, request.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if pool.DeletionTimestamp != nil && len(pool.Finalizers) == 0 {
		return ctrl.Result{}, nil
	}
	if pool.DeletionTimestamp == nil {
		if _, err := patch.AddFinalizer(ctx, r.Client, &pool, v1alpha1.FinalizerPool); err != nil {
			return ctrl.Result{}, err
		}
	}
	known := r.memory.of(pool.UID)
	o, err := r.observe(ctx, &pool, known)
	if err != nil {
		return ctrl.Result{}, err
	}
	if o.namespaceGoes {
		return r.release(ctx, o)
	}
	certificate, err := r.ensureSurroundings(ctx, o)
	switch {
	case children.NamespaceTerminating(err):
		return ctrl.Result{}, nil
	case err != nil:
		return r.unable(ctx, o, err)
	}
	plan := MakePlan(o.snapshot)
	if certificate.Missing != "" {
		plan.Create = 0
	}
	out, applyErr := r.apply(ctx, &pool, plan, known)
	if applyErr == nil && pool.DeletionTimestamp != nil && len(o.snapshot.Workers) == 0 {
		return r.release(ctx, o)
	}
	if applyErr == nil {
		applyErr = r.sweepConfigs(ctx, o)
	}
	if !o.snapshot.wanting() {
		known.refusal = podhealth.Problem{}
	}
	if o.healthy() {
		r.BackOff.DeleteEntry(string(pool.UID))
	}
	refusal := known.refusal
	if certificate.Missing != "" {
		refusal = podhealth.Problem{Reason: v1alpha1.ReasonCertificatePending, Message: certificate.Missing}
	}
	statusErr := r.writeStatus(ctx, o, out, refusal)
	if err := errors.Join(applyErr, statusErr); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.nextLook(o, out, certificate.RenewIn)}, nil
}

// ensureSurroundings makes what a worker mounts, before there is a worker.
func (r *Reconciler) ensureSurroundings(ctx context.Context, o *observation) (certs.Issued, error) {
	pool := o.pool
	if pool.DeletionTimestamp != nil {
		return certs.Issued{}, nil
	}
	issued, err := r.ensureCertificate(ctx, pool)
	if err != nil {
		return certs.Issued{}, err
	}
	o.certificateTrouble = issued.Trouble
	config, err := configOf(pool, o.snapshot.most())
	if err != nil {
		return certs.Issued{}, err
	}
	for _, object := range append(Rights(pool, o.accounts()...), config) {
		if _, err := r.Issuer.Keeper.Ensure(ctx, object); err != nil {
			return certs.Issued{}, err
		}
	}
	return issued, r.ensureNetworkPolicy(ctx, pool)
}

// ensureNetworkPolicy makes the policy before there is a worker, or removes it where policies are off.
func (r *Reconciler) ensureNetworkPolicy(ctx context.Context, pool *v1alpha1.WorkerPool) error {
	policy := networkpolicy.Workers(pool, r.Network)
	if !r.Network.Enabled {
		return r.Issuer.Keeper.Remove(ctx, policy)
	}
	if _, err := r.Issuer.Keeper.Ensure(ctx, policy); err != nil {
		return &surroundingError{reason: networkpolicy.RefusalReason(policy, err), cause: err}
	}
	return nil
}

// surroundingError is what keeps workers from being made, with the reason that the conditions show.
type surroundingError struct {
	reason string
	cause  error
}

func (e *surroundingError) Error() string { return e.cause.Error() }
func (e *surroundingError) Unwrap() error { return e.cause }

// unable says in the status why the pool cannot be reconciled, and has it tried again.
func (r *Reconciler) unable(ctx context.Context, o *observation, err error) (ctrl.Result, error) {
	reason := v1alpha1.ReasonReconcileFailed
	if named := (*surroundingError)(nil); errors.As(err, &named) {
		reason = named.reason
	}
	if taken := (*children.NameConflictError)(nil); errors.As(err, &taken) {
		reason = v1alpha1.ReasonNameConflict
	}
	o.unable = podhealth.Problem{Reason: reason, Message: err.Error()}
	out := &outcome{}
	if before := meta.FindStatusCondition(o.pool.Status.Conditions, v1alpha1.ConditionProgressing); before == nil || before.Reason != reason {
		out.say(corev1.EventTypeWarning, reason, "Reconciling", "%s", err.Error())
	}
	statusErr := r.writeStatus(ctx, o, out, o.unable)
	return ctrl.Result{}, errors.Join(err, statusErr)
}

func (r *Reconciler) writeStatus(ctx context.Context, o *observation, out *outcome, refusal podhealth.Problem) error {
	after := o.pool.DeepCopy()
	var changed []conditions.Transition
	after.Status, changed = makeStatus(o, refusal)
	wrote, err := patch.Status(ctx, r.Client, o.pool, after)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if wrote {
		r.Metrics.StatusWrite(v1alpha1.KindWorkerPool)
	}
	t := o.snapshot.tally()
	r.Metrics.Pool(o.pool.Namespace, o.pool.Name, metrics.PoolWorkers{
		Desired: o.snapshot.desired(), Live: t.live, Ready: t.ready, Updated: t.updated, Draining: t.leaving,
	})
	for _, e := range out.events {
		r.Recorder.Eventf(o.pool, nil, e.kind, e.reason, e.action, "%s", e.note)
	}
	conditions.Announce(r.Recorder, o.pool, changed, []string{v1alpha1.ConditionReady, v1alpha1.ConditionFlowAccepted}, nil)
	return nil
}

// release lets a deleted pool go: because its workers are gone, or because the namespace goes, whose pods stop on their own. The Event of
// the latter is about the namespace, since inside it none can be made any more; a Confined operator makes none.
func (r *Reconciler) release(ctx context.Context, o *observation) (ctrl.Result, error) {
	pool := o.pool
	if !o.namespaceGoes {
		if err := r.Issuer.Forget(ctx, pool.Namespace, runtimeconfig.WorkerName(pool.Name)); err != nil {
			return ctrl.Result{}, err
		}
	}
	released, err := patch.RemoveFinalizer(ctx, r.Client, pool, v1alpha1.FinalizerPool)
	if err != nil {
		return ctrl.Result{}, err
	}
	if released && o.namespaceGoes && o.namespaceOf != nil {
		// The pool is named as the related object too: Events about one namespace that differ in their text alone are taken for repeats.
		r.Recorder.Eventf(o.namespaceOf, pool, corev1.EventTypeNormal, "Released", "Deleting", "Released WorkerPool %s without waiting for its workers", pool.Name)
	}
	r.memory.forget(pool.UID)
	r.BackOff.DeleteEntry(string(pool.UID))
	r.Metrics.ForgetPool(pool.Namespace, pool.Name)
	return ctrl.Result{}, nil
}

// healthy says whether the pool has what it wants, so that a new failure starts with a short back-off again.
func (o *observation) healthy() bool {
	t := o.snapshot.tally()
	return t.gone == 0 && t.ready >= o.snapshot.desired() && !o.snapshot.wanting()
}

// nextLook is when the pool has to be looked at without an event of the API.
func (r *Reconciler) nextLook(o *observation, out *outcome, renewIn time.Duration) time.Duration {
	next := mirrorEvery
	if renewIn > 0 {
		next = min(next, renewIn)
	}
	if out.again || count(o.snapshot.Workers, Worker.leaving) > 0 {
		next = min(next, pollEvery)
	}
	if wait := r.BackOff.Get(string(o.pool.UID)); wait > 0 && o.snapshot.wanting() {
		next = min(next, wait)
	}
	return next
}
