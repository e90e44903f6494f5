package flow

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/conditions"
	"github.com/workpulling/workpulling/internal/podhealth"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

func (o *observation) queueAvailable(producer conditions.Condition, a applied) conditions.Condition {
	const kind = v1alpha1.ConditionQueueAvailable
	if o.flow.Spec.Queue.HasVolume() {
		if c, found := o.volumeTrouble(); found {
			return c
		}
	}
	if c, found := o.crewQueue(); found {
		return c
	}
	s := o.stats.Stats
	switch {
	case !o.stats.Connected && producer.Status == metav1.ConditionTrue:
		// It was here a moment ago and connects again: what was true is repeated.
		if before, found := o.lastTold(kind); found {
			return before
		}
		return conditions.Unknown(kind, producer.Reason, "")
	case !o.stats.Connected:
		return conditions.Unknown(kind, producer.Reason, "not known before the producer reports")
	case s.QueueCode == runtimeconfig.QueueLocked:
		return conditions.False(kind, v1alpha1.ReasonQueueLocked, s.QueueMessage+lockHint)
	case s.State == "Loading" && !s.QueueAvailable:
		return conditions.False(kind, v1alpha1.ReasonStoreUnavailable, "the queue cannot be loaded: "+s.QueueMessage+o.databaseHint())
	case s.State == "Loading":
		return conditions.False(kind, v1alpha1.ReasonQueueLoading, "the producer loads the queue")
	case s.QueueCode == runtimeconfig.QueueFull:
		return conditions.False(kind, v1alpha1.ReasonQueueFull, s.QueueMessage+o.fullHint())
	case !s.QueueAvailable:
		return conditions.False(kind, v1alpha1.ReasonStoreUnavailable, "operations of the queue fail: "+s.QueueMessage+o.databaseHint())
	case s.BacklogFull:
		return conditions.True(kind, v1alpha1.ReasonBacklogFull, "the backlog is full and submitters are asked to come back; add workers or raise spec.backlog")
	case a.resizeRefused != "":
		return conditions.True(kind, v1alpha1.ReasonVolumeResizeRefused, "the volume cannot grow: "+a.resizeRefused)
	case o.resizing():
		return conditions.True(kind, v1alpha1.ReasonVolumeResizing, "the volume grows to "+ptr.To(o.flow.Spec.Queue.VolumeSize()).String())
	}
	return conditions.True(kind, v1alpha1.ReasonQueueReady, s.QueueMessage)
}

// lockHint says how a locked queue is opened.
const lockHint = "; the producer goes on by itself when that process ends: bring the node it runs on back, or shut that down; leave queue.lock alone"

// fullHint says how a full queue gets room.
func (o *observation) fullHint() string {
	const begin = "; new jobs are refused, and stored ones go on: "
	if o.flow.Spec.Queue.IsShared() {
		return begin + "make room in the database, or end its read-only state"
	}
	return begin + "raise spec.queue.local.size where the StorageClass lets volumes grow, or add workers, which make room"
}

func (o *observation) volumeTrouble() (conditions.Condition, bool) {
	const kind = v1alpha1.ConditionQueueAvailable
	if volume := volumeOf(o.flow, o.claim); volume.missing != "" {
		return conditions.False(kind, v1alpha1.ReasonVolumeMissing, volume.missing), true
	}
	if o.nodeLost != "" {
		return conditions.False(kind, v1alpha1.ReasonVolumeNodeLost, fmt.Sprintf(
			"node %s, where the producer and its volume are, is gone or not ready; bring it back, or delete its Node object when it is gone for good: kubectl delete node %s",
			o.nodeLost, o.nodeLost)), true
	}
	if o.claim == nil || o.claim.Status.Phase == corev1.ClaimBound {
		if o.claim == nil && o.storage.problem != "" {
			return conditions.False(kind, v1alpha1.ReasonVolumePending, o.storage.problem), true
		}
		return conditions.Condition{}, false
	}
	cause := o.storage.problem
	if cause == "" && o.pod != nil {
		cause = podhealth.Diagnose(o.pod).Message
	}
	if cause == "" {
		cause = "its provisioner has not made a volume yet; see kubectl describe pvc -n " + o.flow.Namespace + " " + o.claim.Name
	}
	return conditions.False(kind, v1alpha1.ReasonVolumePending, fmt.Sprintf("PersistentVolumeClaim %s is not bound: %s", o.claim.Name, cause)), true
}

func (o *observation) resizing() bool {
	if o.claim == nil || o.claim.Status.Phase != corev1.ClaimBound {
		return false
	}
	want, have := o.flow.Spec.Queue.VolumeSize(), o.claim.Status.Capacity[corev1.ResourceStorage]
	asked := o.claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return !have.IsZero() && asked.Cmp(want) >= 0 && have.Cmp(asked) < 0
}
