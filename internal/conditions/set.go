package conditions

import (
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxMessage is shorter than the API's limit of 32768 bytes, because nobody reads more in a terminal.
const maxMessage = 1024

// Condition is one finding about an object.
type Condition struct {
	Type    string
	Status  metav1.ConditionStatus
	Reason  string
	Message string
}

// True builds a Condition that holds.
func True(kind, reason, message string) Condition {
	return Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// False builds a Condition that does not hold.
func False(kind, reason, message string) Condition {
	return Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// Unknown builds a Condition of which nobody knows.
func Unknown(kind, reason, message string) Condition {
	return Condition{Type: kind, Status: metav1.ConditionUnknown, Reason: reason, Message: message}
}

// Transition is a change of status or reason that people should hear of.
type Transition struct {
	Condition
	// FromReason is empty where the condition is new.
	FromReason string
}

// Set writes next into list for generation, and returns what changed in status or reason, in the order of next.
func Set(list *[]metav1.Condition, generation int64, next ...Condition) []Transition {
	var changed []Transition
	for _, c := range next {
		before := meta.FindStatusCondition(*list, c.Type)
		if before == nil || before.Status != c.Status || before.Reason != c.Reason {
			t := Transition{Condition: c}
			if before != nil {
				t.FromReason = before.Reason
			}
			changed = append(changed, t)
		}
		meta.SetStatusCondition(list, metav1.Condition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: Truncate(c.Message), ObservedGeneration: generation,
		})
	}
	return changed
}

// Truncate cuts a message that is longer than people read.
func Truncate(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	end := maxMessage - len("…")
	for end > 0 && !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end] + "…"
}
