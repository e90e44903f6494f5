package flow

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/conditions"
	"github.com/workpulling/workpulling/internal/podhealth"
)

// announced are the conditions whose transitions are Events; of inverted ones False is the good state.
var (
	announced = []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionQueueAvailable, v1alpha1.ConditionDeliveryFailed, v1alpha1.ConditionHasDeadLetters,
	}
	inverted = []string{v1alpha1.ConditionDeliveryFailed, v1alpha1.ConditionHasDeadLetters}
)

// makeStatus computes the whole status from what was observed and applied.
func makeStatus(o *observation, p plan, a applied) (v1alpha1.WorkPullingFlowStatus, []conditions.Transition) {
	status := *o.flow.Status.DeepCopy()
	status.ObservedGeneration = o.flow.Generation
	status.IntakeURL = intakeURL(o.flow)
	o.counts(&status)

	producer := o.producerAvailable(a)
	queue := o.queueAvailable(producer, a)
	workers := o.workersBound()
	failed := o.deliveryFailed()
	changed := conditions.Set(&status.Conditions, o.flow.Generation,
		o.ready(p, producer, queue, failed), producer, queue, workers, failed, o.hasDeadLetters())
	return status, changed
}

// counts takes the numbers over. While a producer that was here a moment ago connects again they stay; after that they are absent.
func (o *observation) counts(status *v1alpha1.WorkPullingFlowStatus) {
	s := o.stats.Stats
	if !o.stats.Connected {
		if o.silent {
			status.Backlog, status.InFlight, status.Workers, status.DeadLetters, status.LostJobs = nil, nil, nil, nil, nil
		}
		return
	}
	status.Backlog, status.InFlight = ptr.To(s.BacklogJobs), ptr.To(s.InFlight)
	status.Workers = ptr.To(int32(len(s.Workers)))
	status.DeadLetters = ptr.To(s.DeadLetters)
	status.LostJobs = ptr.To(int64(s.LostVolatileTotal))
	if s.Epoch > 0 {
		status.Queue = &v1alpha1.QueueStatus{FormatVersion: int32(s.QueueFormat), Epoch: int64(s.Epoch)}
	}
}

// ready is a chain: the first line that applies is the answer.
func (o *observation) ready(p plan, producer, queue, failed conditions.Condition) conditions.Condition {
	const kind = v1alpha1.ConditionReady
	switch {
	case o.flow.DeletionTimestamp != nil && o.flow.Spec.DeletionPolicy == v1alpha1.DeletionRefuse:
		return conditions.False(kind, v1alpha1.ReasonDeletionRefused, p.ending.wait)
	case o.flow.DeletionTimestamp != nil:
		return conditions.False(kind, v1alpha1.ReasonDeleting, p.ending.wait)
	case failed.Status == metav1.ConditionTrue && failed.Reason != v1alpha1.ReasonConfirmFailed:
		return conditions.False(kind, failed.Reason, failed.Message)
	case queue.Status == metav1.ConditionFalse && queue.Reason != v1alpha1.ReasonQueueLoading:
		return conditions.False(kind, queue.Reason, queue.Message)
	case producer.Status != metav1.ConditionTrue:
		producer.Type = kind
		return producer
	case o.flow.IsSuspended():
		return conditions.False(kind, v1alpha1.ReasonSuspended, "spec.suspend is Enabled: stored jobs are kept, new ones are refused")
	case queue.Status != metav1.ConditionTrue:
		queue.Type = kind
		return queue
	}
	return conditions.True(kind, v1alpha1.ReasonServing, "")
}

func (o *observation) producerAvailable(a applied) conditions.Condition {
	const kind = v1alpha1.ConditionProducerAvailable
	if a.obstacle.Reason != "" {
		return conditions.False(kind, a.obstacle.Reason, a.obstacle.Message)
	}
	if o.pod == nil {
		if o.refusal.Reason != "" {
			return conditions.False(kind, o.refusal.Reason, o.refusal.Message)
		}
		return conditions.False(kind, v1alpha1.ReasonPodStarting, "the producer's pod is being made")
	}
	if problem := podhealth.Diagnose(o.pod); problem.Reason != "" {
		return conditions.False(kind, problem.Reason, problem.Message)
	}
	switch {
	case o.pod.DeletionTimestamp != nil:
		return conditions.False(kind, v1alpha1.ReasonPodStarting, "the producer's pod is stopping and will be replaced")
	case o.nodeLost != "":
		return conditions.False(kind, v1alpha1.ReasonPodStarting, fmt.Sprintf("node %s of the producer's pod is gone or not ready", o.nodeLost))
	case o.stats.Connected:
		return conditions.True(kind, v1alpha1.ReasonProducerReady, "")
	case !podhealth.IsReady(o.pod):
		return conditions.False(kind, v1alpha1.ReasonPodStarting, "the producer's pod is not ready yet")
	case o.silent:
		return conditions.Unknown(kind, v1alpha1.ReasonProducerSilent,
			"the producer's pod is ready and does not report to the operator; delivery may go on; see its log, and whether a NetworkPolicy closes the way")
	}
	for _, c := range o.flow.Status.Conditions {
		if c.Type == kind && c.Status == metav1.ConditionTrue {
			return conditions.True(kind, c.Reason, c.Message)
		}
	}
	return conditions.False(kind, v1alpha1.ReasonPodStarting, "the producer's pod is ready; waiting for its first report")
}

func (o *observation) queueAvailable(producer conditions.Condition, a applied) conditions.Condition {
	const kind = v1alpha1.ConditionQueueAvailable
	if o.flow.Spec.Queue.Type != v1alpha1.QueueMemory {
		if c, found := o.volumeTrouble(); found {
			return c
		}
	}
	s := o.stats.Stats
	switch {
	case !o.stats.Connected && producer.Status == metav1.ConditionTrue:
		// It was here a moment ago and connects again: what was true is repeated.
		for _, c := range o.flow.Status.Conditions {
			if c.Type == kind {
				return conditions.Condition{Type: kind, Status: c.Status, Reason: c.Reason, Message: c.Message}
			}
		}
		return conditions.Unknown(kind, producer.Reason, "")
	case !o.stats.Connected:
		return conditions.Unknown(kind, producer.Reason, "not known before the producer reports")
	case s.State == "Loading":
		return conditions.False(kind, v1alpha1.ReasonQueueLoading, "the producer loads the queue")
	case !s.QueueAvailable:
		return conditions.False(kind, v1alpha1.ReasonStoreUnavailable, "operations of the queue fail: "+s.QueueMessage)
	case s.BacklogFull:
		return conditions.True(kind, v1alpha1.ReasonBacklogFull, "the backlog is full and submitters are asked to come back; add workers or raise spec.backlog")
	case a.resizeRefused != "":
		return conditions.True(kind, v1alpha1.ReasonVolumeResizeRefused, "the volume cannot grow: "+a.resizeRefused)
	case o.resizing():
		return conditions.True(kind, v1alpha1.ReasonVolumeResizing, "the volume grows to "+ptr.To(o.flow.Spec.Queue.VolumeSize()).String())
	}
	return conditions.True(kind, v1alpha1.ReasonQueueReady, "")
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

func (o *observation) workersBound() conditions.Condition {
	const kind = v1alpha1.ConditionWorkersBound
	atZero, refused := 0, 0
	for i := range o.pools {
		if o.pools[i].DesiredReplicas() == 0 {
			atZero++
			continue
		}
		for _, c := range o.pools[i].Status.Conditions {
			if c.Type == v1alpha1.ConditionFlowAccepted && c.Reason == v1alpha1.ReasonServiceAccountNotAllowed {
				refused++
			}
		}
	}
	switch {
	case o.stats.Connected && len(o.stats.Stats.Workers) > 0:
		return conditions.True(kind, v1alpha1.ReasonWorkersBound, "")
	case len(o.pools) == 0:
		return conditions.False(kind, v1alpha1.ReasonNoPool, fmt.Sprintf("no WorkerPool of the namespace has %q in spec.flows", o.flow.Name))
	case atZero == len(o.pools):
		return conditions.False(kind, v1alpha1.ReasonPoolsAtZero, "every pool of the flow has replicas 0")
	case refused > 0 && refused+atZero == len(o.pools):
		return conditions.False(kind, v1alpha1.ReasonServiceAccountNotAllowed, "spec.allowedServiceAccounts does not name the ServiceAccount of the pools")
	case !o.stats.Connected:
		return conditions.Unknown(kind, v1alpha1.ReasonProducerSilent, "not known before the producer reports")
	}
	return conditions.False(kind, v1alpha1.ReasonWorkersStarting, "no worker is bound yet")
}

func (o *observation) deliveryFailed() conditions.Condition {
	const kind = v1alpha1.ConditionDeliveryFailed
	s := o.stats.Stats
	if s.GetFailureStage() == "" {
		return conditions.False(kind, v1alpha1.ReasonDelivering, "")
	}
	return conditions.True(kind, failureReason(s.FailureStage, s.FailureReason), fmt.Sprintf("stage %s: %s", s.FailureStage, s.FailureReason))
}

// failureReason names a failure. The cause comes as the text of an error of the queue.
func failureReason(stage, cause string) string {
	fenced, conflict := strings.Contains(cause, "fenced"), strings.Contains(cause, "conflict")
	switch {
	case strings.Contains(cause, "unsupported format"):
		return v1alpha1.ReasonQueueFormatUnsupported
	case stage == "Load":
		return v1alpha1.ReasonLoadFailed
	case stage == "Store" && fenced:
		return v1alpha1.ReasonStoreFenced
	case stage == "Store" && conflict:
		return v1alpha1.ReasonStoreConflict
	case stage == "Accept" && fenced:
		return v1alpha1.ReasonAcceptFenced
	case stage == "Accept" && conflict:
		return v1alpha1.ReasonAcceptConflict
	case stage == "Confirm" && fenced:
		return v1alpha1.ReasonConfirmFenced
	case stage == "Confirm" && conflict:
		return v1alpha1.ReasonConfirmConflict
	case stage == "Confirm":
		return v1alpha1.ReasonConfirmFailed
	}
	return v1alpha1.ReasonProtocolViolation
}

func (o *observation) hasDeadLetters() conditions.Condition {
	const kind = v1alpha1.ConditionHasDeadLetters
	switch n := o.stats.Stats.GetDeadLetters(); {
	case o.stats.Stats == nil:
		return conditions.Unknown(kind, v1alpha1.ReasonProducerSilent, "not known before the producer reports")
	case n > 0:
		return conditions.True(kind, v1alpha1.ReasonJobsDeadLettered, fmt.Sprintf("%d jobs exhausted their attempts or were rejected; re-drive or drop each", n))
	}
	return conditions.False(kind, v1alpha1.ReasonNoDeadLetters, "")
}
