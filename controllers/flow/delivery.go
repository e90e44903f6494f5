package flow

import (
	"fmt"
	"slices"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/pool"
	"github.com/workpulling/workpulling/internal/conditions"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

func (o *observation) workersBound() conditions.Condition {
	const kind = v1alpha1.ConditionWorkersBound
	atZero, refused := 0, 0
	for i := range o.pools {
		if o.pools[i].DesiredReplicas() == 0 {
			atZero++
			continue
		}
		if allowed := o.flow.Spec.AllowedServiceAccounts; len(allowed) > 0 && !slices.Contains(allowed, pool.AccountOf(&o.pools[i])) {
			refused++
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
	if before, found := o.lastTold(kind); s == nil && found {
		return before
	}
	if s.GetFailureStage() == "" {
		return conditions.False(kind, v1alpha1.ReasonDelivering, "")
	}
	return conditions.True(kind, failureReason(s.FailureStage, s.FailureCode), fmt.Sprintf("stage %s: %s", s.FailureStage, s.FailureReason))
}

// failure is where and why delivery failed, as the producer names it.
type failure struct{ stage, code string }

var failureReasons = map[failure]string{
	{"Store", runtimeconfig.FailureFenced}:     v1alpha1.ReasonStoreFenced,
	{"Store", runtimeconfig.FailureConflict}:   v1alpha1.ReasonStoreConflict,
	{"Accept", runtimeconfig.FailureFenced}:    v1alpha1.ReasonAcceptFenced,
	{"Accept", runtimeconfig.FailureConflict}:  v1alpha1.ReasonAcceptConflict,
	{"Confirm", runtimeconfig.FailureFenced}:   v1alpha1.ReasonConfirmFenced,
	{"Confirm", runtimeconfig.FailureConflict}: v1alpha1.ReasonConfirmConflict,
	{"Confirm", ""}: v1alpha1.ReasonConfirmFailed,
}

func failureReason(stage, code string) string {
	switch {
	case code == runtimeconfig.FailureFormat:
		return v1alpha1.ReasonQueueFormatUnsupported
	case stage == "Load":
		return v1alpha1.ReasonLoadFailed
	}
	if reason, found := failureReasons[failure{stage, code}]; found {
		return reason
	}
	return v1alpha1.ReasonProtocolViolation
}

func (o *observation) hasDeadLetters() conditions.Condition {
	const kind = v1alpha1.ConditionHasDeadLetters
	if before, found := o.lastTold(kind); o.stats.Stats == nil && found {
		return before
	}
	switch n := o.stats.Stats.GetDeadLetters(); {
	case o.stats.Stats == nil:
		return conditions.Unknown(kind, v1alpha1.ReasonProducerSilent, "not known before the producer reports")
	case n > 0:
		return conditions.True(kind, v1alpha1.ReasonJobsDeadLettered, fmt.Sprintf("%d jobs exhausted their attempts or were rejected; re-drive or drop each", n))
	}
	return conditions.False(kind, v1alpha1.ReasonNoDeadLetters, "")
}
