package fencing

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/runtime/transport"
)

// classifyToken judges whether a reviewed token may stand for a worker at all (B-082, B-267).
func classifyToken(who identity, namespace string, allowed []string) *transport.Refusal {
	switch {
	case who.serviceAccount == "" || who.namespace != namespace:
		return refuse(transport.LabelServiceAccount, retryLater, "workers have a ServiceAccount of the flow's namespace "+namespace)
	case who.podName == "" || who.podUID == "":
		return refuse(transport.LabelTokenUnbound, retryLater, "the token is not bound to a pod: use a projected token")
	case len(allowed) > 0 && !slices.Contains(allowed, who.serviceAccount):
		return refuse(transport.LabelServiceAccount, retryLater,
			fmt.Sprintf("the flow does not allow ServiceAccount %s (spec.allowedServiceAccounts)", who.serviceAccount))
	}
	return nil
}

// classifyPod judges the pod object that was found under the name in the token, nil for none. It returns the reference to the
// pool that controls it.
func classifyPod(pod *metav1.PartialObjectMetadata, who identity) (*metav1.OwnerReference, *transport.Refusal) {
	switch {
	case pod == nil || string(pod.UID) != who.podUID:
		return nil, refuse(transport.LabelPodUnknown, retrySoon, "no pod "+who.podName+" with the UID of the token")
	case pod.DeletionTimestamp != nil:
		return nil, refuse(transport.LabelPodTerminating, retryLater, "the pod is being deleted")
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil || !isPool(owner) {
		return nil, refuse(transport.LabelPodForeign, retryLater, "no WorkerPool controls the pod")
	}
	return owner, nil
}

// classifyMember judges whether the pod object that was found under the name in a token is a producer of the flow.
func classifyMember(pod *metav1.PartialObjectMetadata, who identity, statefulSet string) bool {
	if pod == nil || string(pod.UID) != who.podUID {
		return false
	}
	owner := metav1.GetControllerOf(pod)
	return owner != nil && isCrew(owner, statefulSet)
}

func isPool(owner *metav1.OwnerReference) bool {
	return owner.Kind == v1alpha1.KindWorkerPool && groupOf(owner.APIVersion) == v1alpha1.GroupVersion.Group
}

// isCrew says whether a pod is a producer of the flow whose producers are of statefulSet.
func isCrew(owner *metav1.OwnerReference, statefulSet string) bool {
	return owner.Kind == "StatefulSet" && groupOf(owner.APIVersion) == "apps" && owner.Name == statefulSet
}

func groupOf(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return ""
	}
	return gv.Group
}

// classifyPool judges the pool that was found under the owner's name, nil for none (B-083).
func classifyPool(pool *unstructured.Unstructured, owner *metav1.OwnerReference, flow string) *transport.Refusal {
	if pool == nil || pool.GetUID() != owner.UID {
		return refuse(transport.LabelPodForeign, retrySoon, "the WorkerPool "+owner.Name+" that controls the pod is gone")
	}
	if !pulls(pool, flow) {
		return refuse(transport.LabelPodForeign, retryLater, "the WorkerPool "+owner.Name+" does not pull from the flow "+flow)
	}
	return nil
}

// pulls says whether a pool names the flow.
func pulls(pool *unstructured.Unstructured, flow string) bool {
	flows, _, err := unstructured.NestedStringSlice(pool.Object, "spec", "flows")
	return err == nil && slices.Contains(flows, flow)
}
