package flow

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/conditions"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// tokensVerified says how the producer verifies tokens, by its own word.
func (o *observation) tokensVerified(producer conditions.Condition) conditions.Condition {
	const kind = v1alpha1.ConditionTokensVerified
	if !o.stats.Connected {
		// What was told a moment ago is repeated while it connects again.
		if before, found := o.lastTold(kind); found && producer.Status == metav1.ConditionTrue {
			return before
		}
		return conditions.Unknown(kind, v1alpha1.ReasonVerificationUnknown, "not known before the producer reports")
	}
	switch s := o.stats.Stats; s.GetVerification() {
	case runtimeconfig.VerifiedOffline:
		return conditions.True(kind, v1alpha1.ReasonVerifiedOffline, s.GetVerificationMessage())
	case runtimeconfig.VerifiedByReview:
		return conditions.True(kind, v1alpha1.ReasonVerifiedByTokenReview, s.GetVerificationMessage())
	case runtimeconfig.Unverified:
		return conditions.False(kind, v1alpha1.ReasonTokensUnverifiable, s.GetVerificationMessage())
	}
	return conditions.Unknown(kind, v1alpha1.ReasonVerificationUnknown, o.stats.Stats.GetVerificationMessage())
}
