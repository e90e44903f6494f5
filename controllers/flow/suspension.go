package flow

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/workpulling/workpulling/api/v1alpha1"
)

// notTaken says that an edit waits: what is true of the flow is what the document before says.
const notTaken = "the producer has not taken the new configuration yet"

// suspended says whether the suspension is in force. That is for the producer to say, not for the spec.
func (o *observation) suspended() bool {
	if o.stats.Stats != nil {
		return o.stats.Stats.State == "Suspended"
	}
	told, found := o.lastTold(v1alpha1.ConditionReady)
	return found && told.Reason == v1alpha1.ReasonSuspended
}

// taken says whether the producer works by the document of p. Without any report an operator that has just started goes by what was told
// of this generation.
func (o *observation) taken(p plan) bool {
	if o.stats.Stats != nil {
		return o.stats.Stats.ConfigHash == p.configHash
	}
	told := meta.FindStatusCondition(o.flow.Status.Conditions, v1alpha1.ConditionReady)
	return told != nil && told.ObservedGeneration == o.flow.Generation
}

// suspension is what there is to say of a suspension that is in force.
func (o *observation) suspension(p plan) string {
	const kept = "stored jobs are kept, new ones are refused"
	switch {
	case !o.flow.IsSuspended():
		return "resuming: " + notTaken + "; until then " + kept
	case !o.taken(p):
		return "spec.suspend is Enabled: " + kept + "; " + notTaken
	}
	return "spec.suspend is Enabled: " + kept
}
