package flow

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/conditions"
	"github.com/workpulling/workpulling/internal/podhealth"
)

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
	case o.orphaned():
		lonely, _ := o.leaderless()
		return lonely
	case !podhealth.IsReady(o.pod):
		return conditions.False(kind, v1alpha1.ReasonPodStarting, "the producer's pod is not ready yet")
	case o.silent:
		return conditions.Unknown(kind, v1alpha1.ReasonProducerSilent,
			"the producer's pod is ready and does not report to the operator; delivery may go on; see its log, and whether a NetworkPolicy closes the way")
	}
	// What was known stays true for a moment; a silence does not end by the start of another operator.
	if before, found := o.lastTold(kind); found && (before.Status == metav1.ConditionTrue || before.Reason == v1alpha1.ReasonProducerSilent) {
		return before
	}
	return conditions.False(kind, v1alpha1.ReasonPodStarting, "the producer's pod is ready; waiting for its first report")
}

// orphaned says that members report and none has the queue, for longer than a takeover takes.
func (o *observation) orphaned() bool {
	_, lonely := o.leaderless()
	before, found := o.lastTold(v1alpha1.ConditionProducerAvailable)
	return lonely && (o.silent || found && before.Reason == v1alpha1.ReasonNoActiveProducer)
}

// runtimeLag says that the producer runs with another runtime than a new pod would have, and how that ends. Empty means that it does not.
func (o *observation) runtimeLag(p plan) string {
	if p.set == nil || o.pod.Annotations[v1alpha1.AnnotationRuntimeRevision] == p.set.Annotations[v1alpha1.AnnotationRuntimeRevision] {
		return ""
	}
	const lag = "the producer runs with an older version or older resources of the runtime"
	switch o.flow.Spec.Runtime.UpdatePolicy {
	case v1alpha1.UpdateRolling:
		return lag + "; its pod is being replaced"
	case v1alpha1.UpdateManual:
		return lag + " until its pod is replaced: kubectl delete pod -n " + o.pod.Namespace + " " + o.pod.Name
	case v1alpha1.UpdateOnNextRollout:
	}
	return lag + " until spec.producer.template changes; to replace its pod now, set spec.runtime.updatePolicy to Rolling"
}
