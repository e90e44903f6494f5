package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/workpulling/workpulling/test/bench/internal/breakdown"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// Document is everything that one invocation found out.
type Document struct {
	Command  string    `json:"command"`
	Machine  Machine   `json:"machine"`
	Results  []Result  `json:"results"`
	Settings []Setting `json:"settings"`
	Outcomes []Outcome `json:"ratios"`
}

// Setting is how a system was set.
type Setting struct {
	System string `json:"system"`
	Text   string `json:"text"`
}

// Write writes the document as Markdown.
func (d Document) Write(w io.Writer) error {
	out := new(strings.Builder)
	fmt.Fprintln(out, "# Performance")
	fmt.Fprintln(out)
	fmt.Fprintln(out, "Written by `make bench`. All systems run on one machine in one invocation, their runs interleaved; a figure is the median of its runs.")
	fmt.Fprintln(out, "In every run each accepted job was handled exactly once with its own bytes, or the run would have no figure. Absolute figures are of")
	fmt.Fprintln(out, "this machine only: judge ratios.")
	fmt.Fprintf(out, "\n    %s\n\n", d.Command)
	m := d.Machine
	fmt.Fprintf(out, "%s, %d cores, %d GiB of memory, %s, %s, %s.\n", m.CPU, m.Cores, m.MemoryGiB, m.Kernel, m.FileSystem, m.Go)
	fmt.Fprintf(out, "Load average at the end: %s.\n", m.Load)
	d.targets(out)
	d.flood(out)
	d.timed(out, trial.Paced, "Latency", "From the time at which the schedule wanted a job sent to its handler, at a fixed rate whatever the system does.")
	d.timed(out, trial.Single, "One submission at a time", "One caller that waits until its job is accepted before it submits the next; the times are those of a call.")
	d.spent(out)
	d.skipped(out)
	d.settings(out)
	_, err := io.WriteString(w, out.String())
	return err
}

func (d Document) targets(out *strings.Builder) {
	var lines []string
	for _, o := range d.Outcomes {
		t := o.Target
		if o.Missing != "" {
			continue // the table of rows says what was skipped or failed
		}
		name, bound, verdict := t.Reference, "≥", "missed"
		if t.StandInName != "" {
			name = t.StandInName
		}
		if t.Of != Throughput {
			bound = "≤"
		}
		if o.Met() {
			verdict = "met"
		}
		lines = append(lines, fmt.Sprintf("| %s | %s | %s | %s: %s | %.2f | %s %g | %s |",
			t.Work, t.Of, t.Of.text(o.Ours), strings.SplitN(name, "/", 2)[0], t.Of.text(o.Reference), o.Ratio, bound, t.Want, verdict))
	}
	if len(lines) == 0 {
		return
	}
	fmt.Fprint(out, "\n## Ratios\n\n| work | figure | ours | reference | ratio | target | |\n|---|---|---|---|---|---|---|\n", strings.Join(lines, "\n"), "\n")
}

// text is a figure for people.
func (q Quantity) text(figure float64) string {
	switch q {
	case P50, P99:
		return fmt.Sprintf("%.2f ms", figure/float64(time.Millisecond))
	case CPU:
		return fmt.Sprintf("%.1f µs", figure/float64(time.Microsecond))
	default:
		return thousands(figure)
	}
}

// thousands writes a whole number with commas.
func thousands(figure float64) string {
	digits := fmt.Sprintf("%.0f", figure)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

func (d Document) of(mode trial.Mode) (chosen []Result) {
	for _, r := range d.Results {
		if r.Row.Mode == mode && r.Skipped == "" {
			chosen = append(chosen, r)
		}
	}
	return chosen
}

func (d Document) flood(out *strings.Builder) {
	results := d.of(trial.Flood)
	if len(results) == 0 {
		return
	}
	fmt.Fprint(out, "\n## Throughput\n\nJobs are submitted as fast as the system takes them, with at most ", thousands(trial.Backlog),
		" accepted and not handled. A worker of ours has a window of 50\nand, in Go, one handler at a time.\n\n")
	fmt.Fprint(out, "| system | payload | workers | jobs/s | lowest … highest | CPU a job, all processes | jobs verified |\n|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		if !r.Measured() {
			fmt.Fprintf(out, "| %s | %d B | %d | failed: %s | | | |\n", r.Row.System, r.Row.PayloadBytes, r.Row.Workers, r.why())
			continue
		}
		s := r.Summary
		fmt.Fprintf(out, "| %s | %d B | %d | %s | %s … %s | %s | %s |\n", r.Row.System, r.Row.PayloadBytes, r.Row.Workers,
			thousands(s.JobsPerSecond), thousands(s.Least), thousands(s.Most), CPU.text(float64(s.CPUPerJob)), thousands(float64(s.Jobs)))
	}
}

func (d Document) timed(out *strings.Builder, mode trial.Mode, title, about string) {
	results := d.of(mode)
	if len(results) == 0 {
		return
	}
	fmt.Fprintf(out, "\n## %s\n\n%s\n\n", title, about)
	fmt.Fprint(out, "| system | payload | workers | jobs/s | p50 | p99 | CPU a job, all processes | jobs verified |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		if !r.Measured() {
			fmt.Fprintf(out, "| %s | %d B | %d | failed: %s | | | | |\n", r.Row.System, r.Row.PayloadBytes, r.Row.Workers, r.why())
			continue
		}
		s := r.Summary
		fmt.Fprintf(out, "| %s | %d B | %d | %s | %s | %s | %s | %s |\n", r.Row.System, r.Row.PayloadBytes, r.Row.Workers, thousands(s.JobsPerSecond),
			P50.text(float64(s.P50)), P99.text(float64(s.P99)), CPU.text(float64(s.CPUPerJob)), thousands(float64(s.Jobs)))
	}
}

func (d Document) spent(out *strings.Builder) {
	var lines []string
	for _, r := range d.Results {
		if len(r.Shares) > 0 {
			lines = append(lines, fmt.Sprintf("| %s | %s | %s |", r.Row.Key(), CPU.text(float64(r.Summary.CPUPerJob)), breakdown.Text(r.Shares, 0.02)))
		}
	}
	if len(lines) == 0 {
		return
	}
	fmt.Fprint(out, "\n## What the CPU goes to\n\nFrom CPU profiles of all Go processes in one more run of the row, the driver and its apps included; a database server is not.\n\n",
		"| row | CPU a job, all processes | shares of the profile |\n|---|---|---|\n", strings.Join(lines, "\n"), "\n")
}

// why is the first line of the first failure.
func (r Result) why() string {
	if len(r.Failures) == 0 {
		return "no run"
	}
	first, _, _ := strings.Cut(r.Failures[0], "\n")
	return strings.ReplaceAll(first, "|", "/")
}

func (d Document) skipped(out *strings.Builder) {
	told := map[string]bool{}
	for _, r := range d.Results {
		if r.Skipped == "" || told[r.Row.System] {
			continue
		}
		if len(told) == 0 {
			fmt.Fprint(out, "\n## Not measured\n\n")
		}
		told[r.Row.System] = true
		fmt.Fprintf(out, "- %s: %s\n", r.Row.System, r.Skipped)
	}
}

func (d Document) settings(out *strings.Builder) {
	fmt.Fprint(out, "\n## Settings\n\n")
	for _, s := range d.Settings {
		fmt.Fprintf(out, "- %s: %s.\n", s.System, s.Text)
	}
}
