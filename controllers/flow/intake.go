package flow

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/conditions"
	protocolv1 "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// intakeAuthenticated says whether every caller of the intake presents a token. In doubt it does not: an opened door counts from the edit on, and
// a closed one when every producer has taken the edit.
func (o *observation) intakeAuthenticated(p plan) conditions.Condition {
	const kind = v1alpha1.ConditionIntakeAuthenticated
	open := "live pods of namespace " + o.flow.Namespace + " submit without a token"
	before, found := o.lastTold(kind)
	switch {
	case o.flow.TrustsNamespace() && !o.allTaken(p):
		return conditions.False(kind, v1alpha1.ReasonTrustedNamespace, join(open, notTaken))
	case o.flow.TrustsNamespace():
		return conditions.False(kind, v1alpha1.ReasonTrustedNamespace, open)
	case o.allTaken(p):
		return conditions.True(kind, v1alpha1.ReasonTokens, "")
	case found && before.Status == metav1.ConditionTrue:
		return before
	case found && before.Status == metav1.ConditionFalse:
		return conditions.False(kind, v1alpha1.ReasonTrustedNamespace, join(open, notTaken))
	}
	return conditions.Unknown(kind, v1alpha1.ReasonAuthenticationUnknown, "not known before the producer reports")
}

// allTaken says whether every producer has reported that it works by the document of p, those that stand by included: each of them has a door.
func (o *observation) allTaken(p plan) bool {
	by := func(s *protocolv1.FlowStats) bool { return s.GetConfigHash() == p.configHash }
	if o.stats.Stats == nil || !by(o.stats.Stats) {
		return false
	}
	for _, s := range o.stats.Standbys {
		if !by(s) {
			return false
		}
	}
	return !o.flow.Spec.Queue.IsShared() || len(o.stats.Standbys)+1 >= len(o.pods)
}

// firstWord says whether a transition is the first word of a producer, that callers present tokens: no news, as every flow begins so.
func firstWord(t conditions.Transition) bool {
	return t.Type == v1alpha1.ConditionIntakeAuthenticated && t.Status == metav1.ConditionTrue && t.FromReason == v1alpha1.ReasonAuthenticationUnknown
}
