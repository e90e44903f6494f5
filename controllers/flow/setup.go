package flow

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// SetupWithManager registers the reconciler. reports carries the flows whose published statistics changed. The index of pools by their
// flow must be there already.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options, reports <-chan event.GenericEvent) error {
	r.started, r.verified = r.Clock.Now(), newVerified()
	generation := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	shared := builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
		return o.GetName() == runtimeconfig.TLSSecretName || o.GetName() == runtimeconfig.CAConfigMapName
	}))
	made := ctrl.NewControllerManagedBy(mgr).
		Named("workpullingflow").
		For(&v1alpha1.WorkPullingFlow{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Owns(&appsv1.StatefulSet{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		// Its members write the Lease every few seconds; the operator makes it again when it is gone, and nothing else.
		Owns(&coordinationv1.Lease{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})).
		Owns(&policyv1.PodDisruptionBudget{}, generation).Owns(&networkingv1.NetworkPolicy{}, generation).
		Owns(&corev1.ConfigMap{}).Owns(&corev1.Service{}).Owns(&corev1.ServiceAccount{}).Owns(&rbacv1.Role{}).Owns(&rbacv1.RoleBinding{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(flowOfProducer)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(flowOfProducer)).
		Watches(&v1alpha1.WorkerPool{}, handler.EnqueueRequestsFromMapFunc(flowsOfPool), generation).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.flowsOfNamespace), shared).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.flowsOfNamespace), shared).
		WatchesRawSource(source.Channel(reports, &handler.EnqueueRequestForObject{})).
		WithOptions(options)
	if !r.Settings.Confined {
		made = made.Watches(&rbacv1.ClusterRoleBinding{}, handler.EnqueueRequestsFromMapFunc(flowOfBinding))
	}
	if err := made.Complete(r); err != nil {
		return fmt.Errorf("setting up the controller of flows: %w", err)
	}
	return nil
}

func flowOfProducer(_ context.Context, obj client.Object) []reconcile.Request {
	if obj.GetLabels()[v1alpha1.LabelRole] != v1alpha1.RoleProducer {
		return nil
	}
	return request(obj.GetNamespace(), obj.GetLabels()[v1alpha1.LabelFlow])
}

func flowOfBinding(_ context.Context, obj client.Object) []reconcile.Request {
	return request(obj.GetAnnotations()[annotationNamespace], obj.GetLabels()[v1alpha1.LabelFlow])
}

func flowsOfPool(_ context.Context, obj client.Object) []reconcile.Request {
	pool, ok := obj.(*v1alpha1.WorkerPool)
	if !ok {
		return nil
	}
	var requests []reconcile.Request
	for _, flow := range pool.Spec.Flows {
		requests = append(requests, request(pool.Namespace, flow)...)
	}
	return requests
}

func (r *Reconciler) flowsOfNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	var flows v1alpha1.WorkPullingFlowList
	if err := r.Client.List(ctx, &flows, client.InNamespace(obj.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list the flows that an object concerns")
		return nil
	}
	var requests []reconcile.Request
	for i := range flows.Items {
		requests = append(requests, request(flows.Items[i].Namespace, flows.Items[i].Name)...)
	}
	return requests
}

func request(namespace, flow string) []reconcile.Request {
	if namespace == "" || flow == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: flow}}}
}
