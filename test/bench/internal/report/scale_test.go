package report

import (
	"strings"
	"testing"
	"time"

	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

func TestScaleIsWritten(t *testing.T) {
	memory := []trial.Memory{{Process: "producer-0", Own: 3 << 20, Mapped: 5 << 20}}
	document := Scale{
		Command: "bench -backlogs 1000",
		Backlogs: []BacklogResult{{System: "direct-local", Backlog: 1000, Figures: trial.BacklogFigures{
			Fill:   trial.Leg{Jobs: 1000, JobsPerSecond: 2000, CPUPerJob: 7 * time.Microsecond, Memory: memory},
			Steady: trial.Leg{Memory: memory}, Drain: trial.Leg{Memory: memory},
		}}},
		Soaks: []SoakResult{{System: "direct-memory", Rate: 2000, Slice: time.Minute, Window: time.Hour, Figures: trial.SoakFigures{
			Jobs: 4000, Slices: []trial.Slice{{Jobs: 4000, P50: time.Millisecond, P99: 2 * time.Millisecond, Memory: memory}},
			Flatness: []trial.Flatness{{Process: "producer-0", Second: 10 << 20, Last: 12 << 20}},
		}}},
	}
	out := new(strings.Builder)
	if err := document.Write(out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"    bench -backlogs 1000\n",
		"| direct-local | 1,000 | fill | 2,000 | 7.0 µs | 3 MiB | 5 MiB | 1,000 |\n",
		"direct-memory at 2,000 jobs a second, in parts of 1m0s; settled jobs are remembered for 1h0m0s. 4,000 jobs, each handled once.\n",
		"| 1 | 4,000 | 1.00 ms | 2.00 ms | 0.0 µs | 3 MiB | 5 MiB |\n",
		"- producer-0: NOT flat. The median of its resident memory was 10 MiB in the second third and 12 MiB in the last.\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the document misses %q:\n%s", want, out)
		}
	}
}
