package harness

import (
	"fmt"
	"testing"
)

func TestCountersGoOnOverRestarts(t *testing.T) {
	metrics := func(redelivered int) string {
		return fmt.Sprintf("# TYPE workpulling_flow_backlog_jobs gauge\nworkpulling_flow_backlog_jobs{flow=\"f\"} 7\n"+
			"# TYPE workpulling_flow_redelivered_jobs_total counter\nworkpulling_flow_redelivered_jobs_total %d\n", redelivered)
	}
	var c Counters
	// 100 before the run; then 50 more; then a new process that has counted 5, and 20 more.
	for _, redelivered := range []int{100, 150, 5, 25} {
		if err := c.parse(metrics(redelivered)); err != nil {
			t.Fatal(err)
		}
	}
	if c.Redelivered.Value() != 75 || c.Backlog != 7 {
		t.Errorf("redelivered %v, backlog %v; want 75, 7", c.Redelivered.Value(), c.Backlog)
	}
	if err := c.parse("something_else 1\n"); err == nil {
		t.Error("metrics of something else were taken")
	}
}
