package fencing

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
)

// mostSeen bounds the pods of a snapshot. A pod that is left out can bind in an outage only while this process lives.
const mostSeen = 10_000

// snapshot is what was last seen of the cluster, as far as it tells who may bind to a flow or submit to it. More kinds of evidence are more
// fields: a reader ignores those that it does not know, and takes absent ones for "nothing seen".
type snapshot struct {
	Pods  []seenPod  `json:"pods"`
	Pools []seenPool `json:"pools"`
	// Leases are those of the pods, by the UID of each.
	Leases map[string]sight `json:"leases,omitempty"`
	// Grants are the permissions of submitters.
	Grants []grant `json:"grants,omitempty"`
}

// seenPod is a pod that a pool of the flow owns, or another producer of the flow.
type seenPod struct {
	Name        string    `json:"name"`
	UID         types.UID `json:"uid"`
	Revision    string    `json:"revision,omitempty"`
	Terminating bool      `json:"terminating,omitempty"`
	Owner       seenOwner `json:"owner"`
}

// seenOwner is what controls a pod.
type seenOwner struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
}

// seenPool is a pool that pulls from the flow.
type seenPool struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// takeSnapshot picks what matters to a flow. It depends on the contents of its arguments alone, not on their order.
func takeSnapshot(pods []*metav1.PartialObjectMetadata, pools []*unstructured.Unstructured, flow, statefulSet string) snapshot {
	var s snapshot
	pulling := map[types.UID]bool{}
	for _, pool := range pools {
		if pulls(pool, flow) {
			pulling[pool.GetUID()] = true
			s.Pools = append(s.Pools, seenPool{Name: pool.GetName(), UID: pool.GetUID()})
		}
	}
	for _, pod := range pods {
		owner := metav1.GetControllerOf(pod)
		if owner == nil || !(isPool(owner) && pulling[owner.UID] || isCrew(owner, statefulSet)) {
			continue
		}
		s.Pods = append(s.Pods, seenPod{
			Name: pod.Name, UID: pod.UID, Revision: pod.Labels[v1alpha1.LabelRevision], Terminating: pod.DeletionTimestamp != nil,
			Owner: seenOwner{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID},
		})
	}
	slices.SortFunc(s.Pools, func(a, b seenPool) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Pods, func(a, b seenPod) int { return cmp.Compare(a.Name, b.Name) })
	s.Pods = s.Pods[:min(len(s.Pods), mostSeen)]
	return s
}

// object is the pod as a classifier takes it.
func (p seenPod) object() *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: p.Name, UID: p.UID, Labels: map[string]string{v1alpha1.LabelRevision: p.Revision},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: p.Owner.APIVersion, Kind: p.Owner.Kind, Name: p.Owner.Name, UID: p.Owner.UID, Controller: ptr.To(true),
		}},
	}}
	if p.Terminating {
		out.DeletionTimestamp = &metav1.Time{}
	}
	return out
}

// object is the pool as a classifier takes it.
func (p seenPool) object(flow string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"flows": []any{flow}}}}
	out.SetName(p.Name)
	out.SetUID(p.UID)
	return out
}
