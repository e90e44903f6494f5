package conditions

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/workpulling/workpulling/api/v1alpha1"
)

// calm are reasons for not being ready that are part of an ordinary life.
var calm = []string{
	v1alpha1.ReasonPodStarting, v1alpha1.ReasonWorkersUnready, v1alpha1.ReasonQueueLoading, v1alpha1.ReasonSuspended, v1alpha1.ReasonDeleting,
}

// Announce tells of the transitions of the given types, one Event each; of several with one reason, such as Ready and what is in its way,
// the last is told alone (B-282). A condition that is not known, or that is new and in its good
// state, is no news. inverted holds the types that are good while False.
func Announce(recorder events.EventRecorder, obj runtime.Object, transitions []Transition, types, inverted []string) {
	for i, t := range transitions {
		if slices.ContainsFunc(transitions[i+1:], func(o Transition) bool { return o.Reason == t.Reason && slices.Contains(types, o.Type) }) {
			continue
		}
		good := (t.Status == metav1.ConditionTrue) != slices.Contains(inverted, t.Type)
		if !slices.Contains(types, t.Type) || t.Status == metav1.ConditionUnknown || good && t.FromReason == "" {
			continue
		}
		kind := corev1.EventTypeNormal
		if !good && !slices.Contains(calm, t.Reason) {
			kind = corev1.EventTypeWarning
		}
		message := t.Message
		if message == "" {
			message = t.Type + " is " + string(t.Status)
		}
		recorder.Eventf(obj, nil, kind, t.Reason, t.Type, "%s", Truncate(message))
	}
}
