package crash

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/workpulling/workpulling/test/prober"
)

// figures are what one run showed.
type figures struct {
	prober.Verdict
	took   time.Duration
	hits   map[Kind]int
	idle   int
	maxSeq int64
	memory *Memory
	load   *prober.Load
}

// leastRate is how many jobs a second a load has to have got through for its run to prove anything. Machines of two busy cores accept more
// than ten times as many.
const leastRate = 10

// table is the result in Markdown.
func (f *figures) table() string {
	var b strings.Builder
	rounds := 0
	for _, n := range f.hits {
		rounds += n
	}
	fmt.Fprintf(&b, "%s, %d faults that hit (%d found their target down already), %.0f accepted jobs a second.\n\n",
		f.took.Round(time.Second), rounds, f.idle, float64(f.Accepted)/f.took.Seconds())
	fmt.Fprint(&b, "| fault | rounds |\n|---|---:|\n")
	for _, kind := range slices.Sorted(maps.Keys(f.hits)) {
		fmt.Fprintf(&b, "| %s | %d |\n", kind, f.hits[kind])
	}
	fmt.Fprint(&b, "\n| jobs | |\n|---|---:|\n")
	for _, line := range []struct {
		what string
		n    any
	}{
		{"submitted", f.Submitted},
		{"submissions that had to be repeated", f.load.Repeats.Load()},
		{"resubmissions of accepted jobs", f.load.Again.Load()},
		{"accepted", f.Accepted},
		{"answers that a producer had forwarded which stood by", f.load.Forwarded.Load()},
		{"confirmed", f.Confirmed},
		{"confirmed and forgotten before the observer came to ask", f.Forgotten},
		{"with their effect, on the right content", f.Effects},
		{"dead letters, all of jobs that always fail", f.DeadLetters},
		{"**lost**", f.Lost},
		{"runs of the app", f.Runs},
		{"reruns", f.Reruns},
		{"of them after a run that had ended well", f.Repeats},
		{"of them after the confirmation could be read", f.Late},
		{"runs that ended with their app", f.Unfinished},
		{"I-9 violations (two runs of one job on one worker at once)", f.Together},
		{"begun beside a run that a dead sidecar had left for longer than the handler timeout", f.Beside},
		{"faults found in all", len(f.Faults)},
	} {
		fmt.Fprintf(&b, "| %s | %v |\n", line.what, line.n)
	}
	fmt.Fprintf(&b, "\nHighest resident memory by minute, MiB: producer %s; workers %s; the worker whose process was never killed %s.\n",
		series(f.memory.Producers), series(f.memory.Workers), series(f.memory.One))
	return b.String()
}

func series(values []float64) string {
	var out []string
	for _, v := range values {
		out = append(out, fmt.Sprintf("%.0f", v))
	}
	return strings.Join(out, " ")
}

// Deaths are the ends of processes that nobody asked for.
func (n *Node) Deaths() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.deaths)
}
