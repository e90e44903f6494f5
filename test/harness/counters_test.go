package harness

import (
	"fmt"
	"testing"
)

func TestCountersGoOnOverRestarts(t *testing.T) {
	metrics := func(accepted, confirmed int) string {
		return fmt.Sprintf("# TYPE workpulling_flow_backlog_jobs gauge\nworkpulling_flow_backlog_jobs{flow=\"f\"} 7\n"+
			"# TYPE workpulling_flow_accepted_jobs_total counter\nworkpulling_flow_accepted_jobs_total %d\n"+
			"# TYPE workpulling_flow_confirmed_jobs_total counter\nworkpulling_flow_confirmed_jobs_total %d\n", accepted, confirmed)
	}
	var c Counters
	// 100 before the run; then 50 more; then a new process that has counted 5 and 9.
	for _, text := range []string{metrics(100, 100), metrics(150, 140), metrics(5, 9), metrics(25, 29)} {
		if err := c.parse(text); err != nil {
			t.Fatal(err)
		}
	}
	if c.Accepted.Value() != 75 || c.Confirmed.Value() != 69 || c.Redelivered.Value() != 0 || c.Backlog != 7 {
		t.Errorf("accepted %v, confirmed %v, redelivered %v, backlog %v; want 75, 69, 0, 7",
			c.Accepted.Value(), c.Confirmed.Value(), c.Redelivered.Value(), c.Backlog)
	}
	if err := c.parse("something_else 1\n"); err == nil {
		t.Error("metrics of something else were taken")
	}
}
