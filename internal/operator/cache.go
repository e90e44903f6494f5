package operator

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/children"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// cacheOptions limit the cache to what is ours.
func cacheOptions(namespaces []string, confined bool) (cache.Options, error) {
	withRole, err := labels.NewRequirement(v1alpha1.LabelRole, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, fmt.Errorf("selecting our pods: %w", err)
	}
	ours := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{children.LabelManagedBy: children.ManagedBy})}
	oursOrWorkers, err := labels.NewRequirement(children.LabelManagedBy, selection.In, []string{children.ManagedBy, runtimeconfig.ManagedByWorker})
	if err != nil {
		return cache.Options{}, fmt.Errorf("selecting Leases: %w", err)
	}
	options := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:                   {Label: labels.NewSelector().Add(*withRole)},
			&corev1.PersistentVolumeClaim{}: {Label: labels.NewSelector().Add(*withRole)},
			&corev1.Secret{}:                {Field: fields.OneTermEqualSelector("metadata.name", runtimeconfig.TLSSecretName)},
			&corev1.ConfigMap{}:             ours,
			&corev1.Service{}:               ours,
			&corev1.ServiceAccount{}:        ours,
			&appsv1.StatefulSet{}:           ours,
			&coordinationv1.Lease{}:         {Label: labels.NewSelector().Add(*oursOrWorkers)},
			&policyv1.PodDisruptionBudget{}: ours,
			&networkingv1.NetworkPolicy{}:   ours,
			&rbacv1.Role{}:                  ours,
			&rbacv1.RoleBinding{}:           ours,
		},
	}
	if !confined {
		options.ByObject[&rbacv1.ClusterRoleBinding{}] = ours
	}
	if len(namespaces) > 0 {
		options.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range namespaces {
			options.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	return options, nil
}
