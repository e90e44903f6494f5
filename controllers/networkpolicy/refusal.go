package networkpolicy

import (
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
)

// RefusalReason is the reason of a condition about err, which came of writing object: ReasonNetworkPolicyRefused where the API server has
// refused a policy, and ReasonReconcileFailed otherwise.
func RefusalReason(object client.Object, err error) string {
	if _, policy := object.(*networkingv1.NetworkPolicy); policy && (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)) {
		return v1alpha1.ReasonNetworkPolicyRefused
	}
	return v1alpha1.ReasonReconcileFailed
}
