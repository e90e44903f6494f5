package prober

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJobsAndTheirConductFollowFromTheSeed(t *testing.T) {
	if diff := cmp.Diff(JobOf(1, 2), JobOf(1, 2)); diff != "" {
		t.Error(diff)
	}
	poison, statuses := 0, map[int]int{}
	for n := range 20_000 {
		j := JobOf(1, n)
		for attempt := range 8 {
			c := conductOf(1, usuallyTakes, j.MessageID(), attempt)
			if c != conductOf(1, usuallyTakes, j.MessageID(), attempt) {
				t.Fatal("the same attempt, another conduct")
			}
			if Poisoned(j.MessageID()) {
				if c.status < 500 {
					t.Errorf("a poisoned job: %+v", c)
				}
				continue
			}
			statuses[c.status]++
		}
		if Poisoned(j.MessageID()) {
			poison++
		}
	}
	if poison < 5 || poison > 50 {
		t.Errorf("%d of 20,000 jobs are poisoned", poison)
	}
	if len(statuses) != 2 || statuses[http.StatusNoContent] < 150_000 {
		t.Errorf("answers: %v", statuses)
	}
}
