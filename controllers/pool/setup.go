package pool

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// SetupWithManager registers the reconciler. reports carries the flows whose published statistics changed.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options, reports <-chan event.GenericEvent) error {
	r.memory = newMemory()
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	shared := builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
		return o.GetName() == runtimeconfig.TLSSecretName || o.GetName() == runtimeconfig.CAConfigMapName
	}))
	err := ctrl.NewControllerManagedBy(mgr).
		Named("workerpool").
		For(&v1alpha1.WorkerPool{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Owns(&corev1.Pod{}).
		Owns(&corev1.ConfigMap{}).Owns(&rbacv1.Role{}).Owns(&rbacv1.RoleBinding{}).
		Owns(&networkingv1.NetworkPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.WorkPullingFlow{}, handler.EnqueueRequestsFromMapFunc(r.poolsOfFlow), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.poolsOfNamespace), shared).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.poolsOfNamespace), shared).
		WatchesRawSource(source.Channel(reports, handler.EnqueueRequestsFromMapFunc(r.poolsOfFlow))).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the controller of pools: %w", err)
	}
	return nil
}

func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &corev1.Pod{}, IndexController, func(o client.Object) []string {
		if owner := metav1.GetControllerOf(o); owner != nil {
			return []string{string(owner.UID)}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("indexing pods by their controller: %w", err)
	}
	if err := indexer.IndexField(ctx, &v1alpha1.WorkerPool{}, IndexFlow, func(o client.Object) []string {
		pool, ok := o.(*v1alpha1.WorkerPool)
		if !ok {
			return nil
		}
		return pool.Spec.Flows
	}); err != nil {
		return fmt.Errorf("indexing pools by their flow: %w", err)
	}
	return nil
}

func (r *Reconciler) poolsOfFlow(ctx context.Context, flow client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(flow.GetNamespace()), client.MatchingFields{IndexFlow: flow.GetName()})
}

func (r *Reconciler) poolsOfNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(obj.GetNamespace()))
}

func (r *Reconciler) requests(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	var pools v1alpha1.WorkerPoolList
	if err := r.Client.List(ctx, &pools, options...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list the pools that an object concerns")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(pools.Items))
	for i := range pools.Items {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: pools.Items[i].Namespace, Name: pools.Items[i].Name}})
	}
	return requests
}
