package report

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5}, {[]float64{1, 1, 1, 1000}, 1}} {
		if got := median(c.values); got != c.want {
			t.Errorf("the median of %v is %g, want %g", c.values, got, c.want)
		}
	}
}

func TestSummarise(t *testing.T) {
	got := Summarise([]trial.Figures{
		{JobsPerSecond: 300, P50: 3, P99: 30, CPUPerJob: 9, Jobs: 10},
		{JobsPerSecond: 100, P50: 5, P99: 90, CPUPerJob: 7, Jobs: 20},
		{JobsPerSecond: 200, P50: 4, P99: 10, CPUPerJob: 8, Jobs: 30},
	})
	want := Summary{Runs: 3, JobsPerSecond: 200, Least: 100, Most: 300, P50: 4, P99: 30, CPUPerJob: 8, Jobs: 60}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Summarise(nil); got != (Summary{}) {
		t.Errorf("no runs give %+v", got)
	}
}

func TestTarget(t *testing.T) {
	result := func(rate float64, p99 time.Duration) Result {
		return Result{Summary: Summary{Runs: 1, JobsPerSecond: rate, P99: p99}}
	}
	results := map[string]Result{
		"ours": result(300, 3*time.Millisecond), "peer": result(100, 2*time.Millisecond),
		"failed": {Summary: Summary{Runs: 4, JobsPerSecond: 1}, Failures: []string{"lost a job"}},
	}
	for name, c := range map[string]struct {
		target  Target
		ratio   float64
		met     bool
		missing bool
	}{
		"rate met":        {target: Target{Ours: "ours", Reference: "peer", Of: Throughput, Want: 3}, ratio: 3, met: true},
		"rate missed":     {target: Target{Ours: "ours", Reference: "peer", Of: Throughput, Want: 3.1}, ratio: 3},
		"time missed":     {target: Target{Ours: "ours", Reference: "peer", Of: P99, Want: 1}, ratio: 1.5},
		"time met":        {target: Target{Ours: "ours", Reference: "peer", Of: P99, Want: 1.5}, ratio: 1.5, met: true},
		"stand-in scaled": {target: Target{Ours: "ours", Reference: "peer", Of: Throughput, StandIn: 400, ScaleFigure: 200, Want: 1}, ratio: 1.5, met: true},
		"not measured":    {target: Target{Ours: "ours", Reference: "nobody", Of: Throughput, Want: 1}, missing: true},
		"failed":          {target: Target{Ours: "ours", Reference: "failed", Of: Throughput, Want: 1}, missing: true},
		"no such figure":  {target: Target{Ours: "ours", Reference: "peer", Of: CPU, Want: 1}, missing: true},
	} {
		o := c.target.Compare(results)
		if o.Ratio != c.ratio || o.Met() != c.met || (o.Missing != "") != c.missing {
			t.Errorf("%s: ratio %g, met %t, missing %q", name, o.Ratio, o.Met(), o.Missing)
		}
	}
}
