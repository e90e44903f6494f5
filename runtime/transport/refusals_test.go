package transport

import (
	"testing"
	"time"
)

// A refusal is a line at most once a minute for each label, and every one is counted.
func TestRefusalsAreLoggedOnceAMinuteALabel(t *testing.T) {
	now := time.Unix(1_900_000_000, 0)
	var r Refusals
	lines, others := 0, uint64(0)
	for second := range 121 {
		for _, label := range []Label{LabelTokenExpired, LabelForbidden} {
			line, n := r.add(label, now.Add(time.Duration(second)*time.Second))
			if line {
				lines++
				others += n
			}
		}
	}
	if lines != 6 || others != 2*118 {
		t.Errorf("%d lines about %d others, want 3 for each of two labels about 118 each", lines, others)
	}
	if counts := r.Counts(); counts[LabelTokenExpired] != 121 || counts[LabelForbidden] != 121 || len(counts) != 2 {
		t.Errorf("%v", counts)
	}
}
