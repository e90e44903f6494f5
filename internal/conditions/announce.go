package conditions

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// Announce tells of the transitions of the given types, one Event each. A condition that is new and in its good state is no news.
// bad holds the types that are good while False.
func Announce(recorder events.EventRecorder, obj runtime.Object, transitions []Transition, types, bad []string) {
	for _, t := range transitions {
		good := (t.Status == metav1.ConditionTrue) != slices.Contains(bad, t.Type)
		if !slices.Contains(types, t.Type) || good && t.FromReason == "" {
			continue
		}
		kind := corev1.EventTypeNormal
		if !good {
			kind = corev1.EventTypeWarning
		}
		message := t.Message
		if message == "" {
			message = t.Type + " is " + string(t.Status)
		}
		recorder.Eventf(obj, nil, kind, t.Reason, t.Type, "%s", truncate(message))
	}
}
