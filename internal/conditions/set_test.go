package conditions

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSet(t *testing.T) {
	var list []metav1.Condition
	first := Set(&list, 1, False("Ready", "Starting", "wait"), True("Drained", "Nothing", ""))
	want := []Transition{{Condition: False("Ready", "Starting", "wait")}, {Condition: True("Drained", "Nothing", "")}}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("transitions of a new object (-want +got):\n%s", diff)
	}
	snapshot := list[0].LastTransitionTime
	second := Set(&list, 2, False("Ready", "ImagePullFailed", "no such image"), True("Drained", "Nothing", ""))
	want = []Transition{{Condition: False("Ready", "ImagePullFailed", "no such image"), FromReason: "Starting"}}
	if diff := cmp.Diff(want, second); diff != "" {
		t.Errorf("transitions (-want +got):\n%s", diff)
	}
	if list[0].LastTransitionTime != snapshot || list[0].ObservedGeneration != 2 {
		t.Errorf("condition %+v: the transition time must stay and the generation move", list[0])
	}
}

func TestTruncateKeepsCharactersWhole(t *testing.T) {
	got := Truncate(strings.Repeat("ä", maxMessage))
	if len(got) > maxMessage || !utf8.ValidString(got) {
		t.Errorf("got %d bytes, valid: %v", len(got), utf8.ValidString(got))
	}
}
