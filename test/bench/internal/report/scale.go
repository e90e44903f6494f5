package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// Scale is what one invocation found out about backlogs and time.
type Scale struct {
	Command  string
	Machine  Machine
	Backlogs []BacklogResult
	Soaks    []SoakResult
}

// BacklogResult is a trial over a backlog.
type BacklogResult struct {
	System  string
	Backlog int
	Figures trial.BacklogFigures
}

// SoakResult is a soak.
type SoakResult struct {
	System        string
	Rate          int
	Slice, Window time.Duration
	Figures       trial.SoakFigures
}

// Line is the result for somebody who waits.
func (r BacklogResult) Line() string {
	f := r.Figures
	leg := func(l trial.Leg) string {
		return fmt.Sprintf("%.0f jobs/s, %s a job, %s", l.JobsPerSecond, CPU.text(float64(l.CPUPerJob)), memoryText(l.Memory[0]))
	}
	return fmt.Sprintf("fill %s; steady %s; drain %s", leg(f.Fill), leg(f.Steady), leg(f.Drain))
}

// SliceLine is a part of a soak for somebody who waits.
func SliceLine(s trial.Slice) string {
	text := fmt.Sprintf("%d jobs, %s a job", s.Jobs, CPU.text(float64(s.CPUPerJob)))
	for _, m := range s.Memory {
		text += fmt.Sprintf("; %s %s", m.Process, memoryText(m))
	}
	return text
}

func memoryText(m trial.Memory) string {
	return fmt.Sprintf("%s own + %s mapped", mebibytes(m.Own), mebibytes(m.Mapped))
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }

// Write writes the document as Markdown.
func (d Scale) Write(w io.Writer) error {
	out := new(strings.Builder)
	m := d.Machine
	fmt.Fprintf(out, "    %s\n\n%s, %d cores, %d GiB of memory, %s, %s, %s. Load average at the end: %s.\n",
		d.Command, m.CPU, m.Cores, m.MemoryGiB, m.Kernel, m.FileSystem, m.Go, m.Load)
	d.backlogs(out)
	for _, s := range d.Soaks {
		s.write(out)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (d Scale) backlogs(out *strings.Builder) {
	if len(d.Backlogs) == 0 {
		return
	}
	fmt.Fprint(out, "\nThe backlog is filled before the workers come; then one job comes in for each that is handled; then none. Memory is that of the\n",
		"producer's process at the end of each part: what is its own, and what it has mapped of its queue's file.\n\n",
		"| system | backlog | part | jobs/s | CPU a job, all processes | memory, own | mapped | jobs of the part |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range d.Backlogs {
		for _, p := range []struct {
			name string
			leg  trial.Leg
		}{{"fill", r.Figures.Fill}, {"steady", r.Figures.Steady}, {"drain", r.Figures.Drain}} {
			m := p.leg.Memory[0]
			fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", r.System, thousands(float64(r.Backlog)), p.name,
				thousands(p.leg.JobsPerSecond), CPU.text(float64(p.leg.CPUPerJob)), mebibytes(m.Own), mebibytes(m.Mapped), thousands(float64(p.leg.Jobs)))
		}
	}
}

func (r SoakResult) write(out *strings.Builder) {
	fmt.Fprintf(out, "\n%s at %s jobs a second, in parts of %s; settled jobs are remembered for %s. %s jobs, each handled once.\n\n",
		r.System, thousands(float64(r.Rate)), r.Slice, r.Window, thousands(float64(r.Figures.Jobs)))
	header, line := "| part | jobs | p50 | p99 | CPU a job |", "|---|---|---|---|---|"
	for _, f := range r.Figures.Flatness {
		header, line = header+fmt.Sprintf(" %s, own | mapped |", f.Process), line+"---|---|"
	}
	fmt.Fprintf(out, "%s\n%s\n", header, line)
	for i, s := range r.Figures.Slices {
		fmt.Fprintf(out, "| %d | %s | %s | %s | %s |", i+1, thousands(float64(s.Jobs)), P50.text(float64(s.P50)), P99.text(float64(s.P99)), CPU.text(float64(s.CPUPerJob)))
		for _, m := range s.Memory {
			fmt.Fprintf(out, " %s | %s |", mebibytes(m.Own), mebibytes(m.Mapped))
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out)
	for _, f := range r.Figures.Flatness {
		verdict := "flat"
		if !f.Flat() {
			verdict = "NOT flat"
		}
		fmt.Fprintf(out, "- %s: %s. The median of its resident memory was %s in the second third and %s in the last.\n",
			f.Process, verdict, mebibytes(f.Second), mebibytes(f.Last))
	}
}
