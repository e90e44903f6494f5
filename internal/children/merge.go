package children

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Merge writes into observed what desired asks for, and says whether anything differed. Fields that the API server fills in are not
// compared. Of a StatefulSet only the metadata and the fields that a person may change by hand are merged; its template has rules of
// its own.
func Merge(observed, desired client.Object) bool {
	changed := mergeMetadata(observed, desired)
	switch want := desired.(type) {
	case *corev1.ConfigMap:
		return set(&observed.(*corev1.ConfigMap).Data, want.Data) || changed
	case *corev1.ServiceAccount:
		return set(&observed.(*corev1.ServiceAccount).AutomountServiceAccountToken, want.AutomountServiceAccountToken) || changed
	case *rbacv1.Role:
		return set(&observed.(*rbacv1.Role).Rules, want.Rules) || changed
	case *rbacv1.RoleBinding:
		return set(&observed.(*rbacv1.RoleBinding).Subjects, want.Subjects) || changed
	case *rbacv1.ClusterRoleBinding:
		return set(&observed.(*rbacv1.ClusterRoleBinding).Subjects, want.Subjects) || changed
	case *corev1.Service:
		got := observed.(*corev1.Service)
		ports := set(&got.Spec.Ports, want.Spec.Ports)
		selector := set(&got.Spec.Selector, want.Spec.Selector)
		publish := set(&got.Spec.PublishNotReadyAddresses, want.Spec.PublishNotReadyAddresses)
		return ports || selector || publish || changed
	case *networkingv1.NetworkPolicy:
		return set(&observed.(*networkingv1.NetworkPolicy).Spec, want.Spec) || changed
	case *policyv1.PodDisruptionBudget:
		return set(&observed.(*policyv1.PodDisruptionBudget).Spec, want.Spec) || changed
	case *appsv1.StatefulSet:
		got := observed.(*appsv1.StatefulSet)
		replicas := set(&got.Spec.Replicas, want.Spec.Replicas)
		retention := set(&got.Spec.PersistentVolumeClaimRetentionPolicy, want.Spec.PersistentVolumeClaimRetentionPolicy)
		return replicas || retention || changed
	}
	return changed
}

func set[T any](observed *T, desired T) bool {
	if equality.Semantic.DeepEqual(*observed, desired) {
		return false
	}
	*observed = desired
	return true
}

// mergeMetadata adds the labels, annotations and owners of desired. Those of others stay.
func mergeMetadata(observed, desired client.Object) bool {
	labels, changedLabels := overlay(observed.GetLabels(), desired.GetLabels())
	observed.SetLabels(labels)
	annotations, changedAnnotations := overlay(observed.GetAnnotations(), desired.GetAnnotations())
	observed.SetAnnotations(annotations)
	return changedLabels || changedAnnotations
}

func overlay(observed, desired map[string]string) (map[string]string, bool) {
	changed := false
	for key, value := range desired {
		if observed[key] == value {
			if _, found := observed[key]; found {
				continue
			}
		}
		if observed == nil {
			observed = map[string]string{}
		}
		observed[key] = value
		changed = true
	}
	return observed, changed
}
