package flow

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/conditions"
)

// announced are the conditions whose transitions are Events; of inverted ones False is the good state.
var (
	announced = []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionQueueAvailable, v1alpha1.ConditionDeliveryFailed, v1alpha1.ConditionHasDeadLetters,
		v1alpha1.ConditionIntakeAuthenticated,
	}
	inverted = []string{v1alpha1.ConditionDeliveryFailed, v1alpha1.ConditionHasDeadLetters}
)

// makeStatus computes the whole status from what was observed and applied.
func makeStatus(o *observation, p plan, a applied) (v1alpha1.WorkPullingFlowStatus, []conditions.Transition) {
	status := *o.flow.Status.DeepCopy()
	status.ObservedGeneration = o.flow.Generation
	status.IntakeURL = intakeURL(o.flow)
	o.counts(&status)
	o.countLosses(&status)
	status.Producer = o.crewStatus()

	producer := o.producerAvailable(a)
	if producer.Status == metav1.ConditionTrue {
		producer.Message = join(o.crewLag(), o.runtimeLag(p), a.certificateTrouble)
	}
	queue := o.queueAvailable(producer, a)
	workers, tokens := o.workersBound(), o.tokensVerified(producer)
	failed := o.deliveryFailed()
	changed := conditions.Set(&status.Conditions, o.flow.Generation,
		o.ready(p, producer, queue, tokens, failed), producer, queue, workers, tokens, o.intakeAuthenticated(p), failed, o.hasDeadLetters())
	o.rememberFailure(&status, changed)
	return status, slices.DeleteFunc(changed, firstWord)
}

// join makes one message of those that are not empty.
func join(messages ...string) string {
	return strings.Join(slices.DeleteFunc(messages, func(text string) bool { return text == "" }), "; ")
}

// counts takes the numbers over. While a producer that was here a moment ago connects again they stay; after that they are absent.
func (o *observation) counts(status *v1alpha1.WorkPullingFlowStatus) {
	s := o.stats.Stats
	if !o.stats.Connected {
		if o.silent {
			status.Backlog, status.InFlight, status.Workers, status.DeadLetters, status.OrphanedJobs = nil, nil, nil, nil, nil
		}
		return
	}
	status.Backlog, status.InFlight = ptr.To(s.BacklogJobs), ptr.To(s.InFlight)
	status.Workers = ptr.To(int32(len(s.Workers)))
	status.DeadLetters, status.OrphanedJobs = ptr.To(s.DeadLetters), ptr.To(s.OrphanedJobs)
	if o.flow.Spec.Queue.Type != v1alpha1.QueueMemory {
		status.LostJobs = ptr.To(int64(s.LostVolatileTotal))
	}
	if s.Epoch > 0 {
		status.Queue = &v1alpha1.QueueStatus{FormatVersion: int32(s.QueueFormat), Epoch: int64(s.Epoch)}
	}
}

// ready is a chain: the first line that applies is the answer.
func (o *observation) ready(p plan, producer, queue, tokens, failed conditions.Condition) conditions.Condition {
	const kind = v1alpha1.ConditionReady
	switch {
	case o.flow.DeletionTimestamp != nil && o.flow.Spec.DeletionPolicy == v1alpha1.DeletionRefuse:
		return conditions.False(kind, v1alpha1.ReasonDeletionRefused, p.ending.wait)
	case o.flow.DeletionTimestamp != nil:
		return conditions.False(kind, v1alpha1.ReasonDeleting, p.ending.wait)
	case queue.Reason == v1alpha1.ReasonQueueLocked: // also where the load has failed for long enough to be called so
		return conditions.False(kind, queue.Reason, queue.Message)
	case failed.Status == metav1.ConditionTrue && failed.Reason != v1alpha1.ReasonConfirmFailed:
		return conditions.False(kind, failed.Reason, failed.Message)
	case queue.Status == metav1.ConditionFalse && queue.Reason != v1alpha1.ReasonQueueLoading:
		return conditions.False(kind, queue.Reason, queue.Message)
	case producer.Status != metav1.ConditionTrue:
		producer.Type = kind
		return producer
	case o.suspended():
		return conditions.False(kind, v1alpha1.ReasonSuspended, o.suspension(p))
	case queue.Status != metav1.ConditionTrue:
		queue.Type = kind
		return queue
	case tokens.Status == metav1.ConditionFalse:
		tokens.Type = kind
		return tokens
	case o.flow.IsSuspended():
		return conditions.True(kind, v1alpha1.ReasonServing, "suspending: "+notTaken+", and goes on until then")
	case queue.Reason == v1alpha1.ReasonBacklogFull:
		return conditions.True(kind, queue.Reason, queue.Message)
	case !o.taken(p):
		return conditions.True(kind, v1alpha1.ReasonServing, notTaken)
	}
	return conditions.True(kind, v1alpha1.ReasonServing, "")
}

// lastTold is a condition as it is in the status. An operator that has just started knows no more than that.
func (o *observation) lastTold(kind string) (conditions.Condition, bool) {
	c := meta.FindStatusCondition(o.flow.Status.Conditions, kind)
	if c == nil {
		return conditions.Condition{}, false
	}
	return conditions.Condition{Type: kind, Status: c.Status, Reason: c.Reason, Message: c.Message}, true
}
