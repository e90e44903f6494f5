package flow

import (
	"fmt"
	"strings"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/conditions"
)

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
