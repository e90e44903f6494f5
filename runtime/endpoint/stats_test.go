package endpoint

import (
	"testing"

	"github.com/workpulling/workpulling/runtime/delivery"
)

func TestBacklogFull(t *testing.T) {
	cases := map[string]struct {
		jobs  int
		bytes int64
		stats delivery.Stats
		want  bool
	}{
		"room":                         {jobs: 5, bytes: 100, stats: delivery.Stats{BacklogJobs: 4, BacklogBytes: 40}},
		"jobs at the bound":            {jobs: 5, bytes: 100, stats: delivery.Stats{BacklogJobs: 3, DelayedJobs: 2, BacklogBytes: 50}, want: true},
		"more demand than jobs":        {jobs: 5, bytes: 100, stats: delivery.Stats{BacklogJobs: 5, BacklogBytes: 50, FreeDemand: 6}},
		"bytes at the bound":           {jobs: 5, bytes: 100, stats: delivery.Stats{BacklogJobs: 1, BacklogBytes: 100}, want: true},
		"bytes, whatever the demand":   {jobs: 5, bytes: 100, stats: delivery.Stats{BacklogJobs: 1, BacklogBytes: 100, FreeDemand: 9}, want: true},
		"no bound of bytes, empty":     {jobs: 5},
		"no bound of bytes, full":      {jobs: 5, stats: delivery.Stats{BacklogJobs: 5, BacklogBytes: 1 << 40}, want: true},
		"no bound of jobs, room":       {bytes: 100, stats: delivery.Stats{BacklogJobs: 1_000_000, BacklogBytes: 99}},
		"no bound of jobs, full":       {bytes: 100, stats: delivery.Stats{BacklogBytes: 100}, want: true},
		"by demand alone, none":        {want: true},
		"by demand alone, some":        {stats: delivery.Stats{FreeDemand: 1}},
		"by demand alone, all claimed": {stats: delivery.Stats{FreeDemand: 1, BacklogJobs: 1}, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			config := delivery.ControllerConfig{BacklogJobs: tc.jobs, BacklogBytes: tc.bytes}
			if got := backlogFull(config, tc.stats); got != tc.want {
				t.Errorf("full: %v, want %v", got, tc.want)
			}
		})
	}
}
