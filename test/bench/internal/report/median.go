package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// median of an even number is the mean of the two in the middle; of none it is 0.
func median[T ~int64 | ~float64](values []T) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// Summary is the medians of a row's runs.
type Summary struct {
	Runs int `json:"runs"`
	// JobsPerSecond is the median, Least and Most the extremes.
	JobsPerSecond float64       `json:"jobsPerSecond"`
	Least         float64       `json:"least"`
	Most          float64       `json:"most"`
	P50           time.Duration `json:"p50Nanoseconds,omitempty"`
	P99           time.Duration `json:"p99Nanoseconds,omitempty"`
	CPUPerJob     time.Duration `json:"cpuPerJobNanoseconds"`
	// Jobs is how many jobs all runs verified together.
	Jobs uint64 `json:"jobs"`
}

// Summarise takes the runs of one row.
func Summarise(runs []trial.Figures) Summary {
	s := Summary{Runs: len(runs)}
	if len(runs) == 0 {
		return s
	}
	rate := func(f trial.Figures) float64 { return f.JobsPerSecond }
	s.JobsPerSecond = median(each(runs, rate))
	s.Least, s.Most = slices.Min(each(runs, rate)), slices.Max(each(runs, rate))
	s.P50 = median(each(runs, func(f trial.Figures) time.Duration { return f.P50 }))
	s.P99 = median(each(runs, func(f trial.Figures) time.Duration { return f.P99 }))
	s.CPUPerJob = median(each(runs, func(f trial.Figures) time.Duration { return f.CPUPerJob }))
	for _, f := range runs {
		s.Jobs += f.Jobs
	}
	return s
}

func each[T cmp.Ordered](runs []trial.Figures, of func(trial.Figures) T) []T {
	values := make([]T, len(runs))
	for i, f := range runs {
		values[i] = of(f)
	}
	return values
}
