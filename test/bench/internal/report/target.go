package report

import "fmt"

// Target is a ratio to reach between two rows of one invocation.
type Target struct {
	Work string `json:"work"`
	// Ours and Reference are keys of rows.
	Ours      string `json:"ours"`
	Reference string `json:"reference"`
	// Of is what is compared: Throughput, P50, P99 or CPU.
	Of Quantity `json:"of"`
	// StandIn, where it is set, is a figure that was measured elsewhere in place of Reference, beside ScaleFigure, which that machine gave
	// for Reference: it is scaled by what Reference gives here.
	StandIn     float64 `json:"standIn,omitempty"`
	ScaleFigure float64 `json:"scaleFigure,omitempty"`
	StandInName string  `json:"standInName,omitempty"`
	// Want is the ratio: at least, for Throughput, and at most for the others.
	Want float64 `json:"want"`
}

// Quantity is a figure of a row.
type Quantity string

const (
	Throughput Quantity = "jobs/s"
	P50        Quantity = "p50"
	P99        Quantity = "p99"
	CPU        Quantity = "CPU/job"
)

// figure is the quantity in a unit that divides.
func (q Quantity) figure(s Summary) float64 {
	switch q {
	case P50:
		return float64(s.P50)
	case P99:
		return float64(s.P99)
	case CPU:
		return float64(s.CPUPerJob)
	default:
		return s.JobsPerSecond
	}
}

// Outcome is a target beside what was measured.
type Outcome struct {
	Target Target `json:"target"`
	// Ours and Reference are the figures: jobs a second, or nanoseconds.
	Ours      float64 `json:"ours"`
	Reference float64 `json:"reference"`
	Ratio     float64 `json:"ratio"`
	// Missing says which row has no figure; the ratio is none then.
	Missing string `json:"missing,omitempty"`
}

// CompareAll looks all targets up among the results.
func CompareAll(targets []Target, results []Result) []Outcome {
	byKey := map[string]Result{}
	for _, r := range results {
		byKey[r.Row.Key()] = r
	}
	outcomes := make([]Outcome, len(targets))
	for i, t := range targets {
		outcomes[i] = t.Compare(byKey)
	}
	return outcomes
}

// Met says whether the ratio is reached.
func (o Outcome) Met() bool {
	if o.Missing != "" {
		return false
	}
	if o.Target.Of == Throughput {
		return o.Ratio >= o.Target.Want
	}
	return o.Ratio <= o.Target.Want
}

// Compare looks a target up among the results.
func (t Target) Compare(results map[string]Result) Outcome {
	o := Outcome{Target: t}
	for _, key := range []string{t.Ours, t.Reference} {
		if !results[key].Measured() {
			o.Missing = fmt.Sprintf("%s was not measured", key)
			return o
		}
	}
	o.Ours = t.Of.figure(results[t.Ours].Summary)
	o.Reference = t.Of.figure(results[t.Reference].Summary)
	if t.StandIn > 0 {
		o.Reference *= t.StandIn / t.ScaleFigure
	}
	if o.Reference == 0 {
		o.Missing = fmt.Sprintf("%s has no %s", t.Reference, t.Of)
		return o
	}
	o.Ratio = o.Ours / o.Reference
	return o
}
