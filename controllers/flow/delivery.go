package flow

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/controllers/pool"
	"github.com/workpulling/workpulling/internal/conditions"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// stateFailed is the state of a producer that has stopped for good.
const stateFailed = "Failed"

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
	case o.stats.Connected && o.allPaused():
		return conditions.False(kind, v1alpha1.ReasonRevisionPaused, "every bound worker is of a revision whose every job fails: "+pausedNote(o.stats.Stats.PausedRevisions))
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

// allPaused says that nobody gets more than a job to try.
func (o *observation) allPaused() bool {
	workers := o.stats.Stats.GetWorkers()
	for _, w := range workers {
		if !slices.ContainsFunc(o.stats.Stats.PausedRevisions, func(p *protocolv1.PausedRevision) bool {
			return p.Pool == w.Pool && p.Revision == w.Revision
		}) {
			return false
		}
	}
	return len(workers) > 0
}

func pausedNote(paused []*protocolv1.PausedRevision) string {
	notes := make([]string, 0, len(paused))
	for _, p := range paused {
		notes = append(notes, fmt.Sprintf("pool %s revision %s (%s)", p.Pool, p.Revision, p.Reason))
	}
	return strings.Join(notes, ", ")
}

func (o *observation) deliveryFailed() conditions.Condition {
	const kind = v1alpha1.ConditionDeliveryFailed
	s := o.failing()
	if before, found := o.lastTold(kind); s == nil && found {
		return before
	}
	if s.GetFailureStage() == "" {
		return conditions.False(kind, v1alpha1.ReasonDelivering, "")
	}
	return conditions.True(kind, failureReason(s.FailureStage, s.FailureCode), fmt.Sprintf("stage %s: %s%s", s.FailureStage, s.FailureReason, o.remedy(s)))
}

// remedy says how a failure ends.
func (o *observation) remedy(s *protocolv1.FlowStats) string {
	switch {
	case s.FailureCode == runtimeconfig.FailureFormat:
		return ""
	case s.QueueCode == runtimeconfig.QueueLocked:
		return lockHint
	case s.State != stateFailed:
		return o.databaseHint()
	}
	return fmt.Sprintf("; nothing is loaded before a person says so: remove the cause, then kubectl patch wpf -n %s %s --type merge -p '{\"spec\": {\"recoverNonce\": %d}}'",
		o.flow.Namespace, o.flow.Name, s.RecoverNonce%maxNonce+1)
}

// maxNonce is the largest spec.recoverNonce.
const maxNonce = 1<<31 - 1

// rememberFailure keeps the latest failure, also after a recovery. Only one that ends the flow for good carries the nonce that a person has
// to change, until that is done: the failure does not count again where the nonce is changed back. Data of a newer format are not touched and
// can be loaded by the right version, whatever the nonce is.
func (o *observation) rememberFailure(status *v1alpha1.WorkPullingFlowStatus, changed []conditions.Transition) {
	if last := status.LastFailure; last != nil && last.RecoverNonce != nil && *last.RecoverNonce != o.flow.Spec.RecoverNonce {
		status.LastFailure = last.DeepCopy()
		status.LastFailure.RecoverNonce = nil // one that fails under it still says so below
	}
	told := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDeliveryFailed)
	s := o.stats.Stats
	if told == nil || told.Status != metav1.ConditionTrue || s.GetFailureStage() == "" {
		return
	}
	var nonce *int64
	if s.State == stateFailed && s.FailureCode != runtimeconfig.FailureFormat {
		nonce = ptr.To(s.RecoverNonce)
	}
	last := status.LastFailure
	isNew := last == nil || last.Reason != told.Reason || !ptr.Equal(last.RecoverNonce, nonce)
	// Under one nonce nothing is loaded again, so a failure for good that is reported anew is the same one, whatever was seen in between.
	if nonce == nil && slices.ContainsFunc(changed, func(t conditions.Transition) bool { return t.Type == v1alpha1.ConditionDeliveryFailed }) {
		isNew = true
	}
	if !isNew {
		return
	}
	status.LastFailure = &v1alpha1.FailureStatus{
		Reason: told.Reason, Stage: s.FailureStage, Message: conditions.Truncate(s.FailureReason), Time: told.LastTransitionTime, RecoverNonce: nonce,
	}
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

// failureCode is the way back from a reason to the code it was made from.
func failureCode(stage, reason string) string {
	for f, known := range failureReasons {
		if f.stage == stage && known == reason {
			return f.code
		}
	}
	if reason == v1alpha1.ReasonProtocolViolation {
		return runtimeconfig.FailureProtocol
	}
	return ""
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
