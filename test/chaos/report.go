package chaos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/workpulling/workpulling/test/prober"
)

// FlowReport is what became of the jobs of one flow.
type FlowReport struct {
	Flow string `json:"flow"`
	// Accepted jobs; of them Confirmed, Effects with a run that ended well, and DeadLetters, all of jobs that always fail.
	Submitted   int `json:"submitted"`
	Accepted    int `json:"accepted"`
	Confirmed   int `json:"confirmed"`
	Effects     int `json:"effects"`
	DeadLetters int `json:"deadLetters"`
	Lost        int `json:"lost"`
	Runs        int `json:"runs"`
	// Repeats are runs that began after one had ended well, Late those of them after the confirmation was read.
	Repeats int `json:"repeats"`
	Late    int `json:"late"`
	// Reasons count the runs after the first of each job.
	Reasons map[Reason]int `json:"reruns"`
}

// Report is the end of a run.
type Report struct {
	Seed    uint64       `json:"seed"`
	Minutes float64      `json:"minutes"`
	Flows   []FlowReport `json:"flows"`
	// Faults count those that were carried out.
	Faults map[Kind]int `json:"faults"`
	// LongestStall is the longest of all in seconds, and Stalls the longest of each kind of fault.
	LongestStall float64          `json:"longestStallSeconds"`
	Stalls       map[Kind]float64 `json:"stallSecondsByFault"`
	// Recovery is the longest time from the end of a fault of each kind until everything was as before it.
	Recovery map[Kind]float64 `json:"recoverySecondsByFault"`
	// Wrong is everything that must not be, a line each. A run without such a line is good.
	Wrong []string `json:"wrong"`
}

// Manifest is what a run leaves beside its journals for who judges it.
type Manifest struct {
	Seed  uint64        `json:"seed"`
	Flows []string      `json:"flows"`
	Began prober.Moment `json:"began"`
	Ended prober.Moment `json:"ended"`
	// Length is how long faults came, Grace the longest stall that needs no explanation, LeastRate how many jobs a second a flow has to
	// have accepted.
	Length    time.Duration `json:"length"`
	Grace     time.Duration `json:"grace"`
	LeastRate float64       `json:"leastRate"`
	// Wrong is what went wrong beside the jobs.
	Wrong []string `json:"wrong,omitempty"`
}

// Files of a run's directory.
const (
	manifestFile = "run.json"
	actsFile     = "faults.ndjson"
	ledgersDir   = "volume/ledgers"
)

func booksFile(flow string) string { return "books-" + flow + prober.LedgerSuffix }

// Judge reads the directory of a run and makes its report.
func Judge(dir string) (*Report, error) {
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		return nil, fmt.Errorf("reading what the run was: %w", err)
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("reading what the run was: %w", err)
	}
	acts, err := prober.ReadJournal[Act](filepath.Join(dir, actsFile))
	if err != nil {
		return nil, err
	}
	ledgers, err := prober.ReadLedgers(filepath.Join(dir, ledgersDir))
	if err != nil {
		return nil, err
	}
	books := map[string]map[string]prober.Record{}
	for _, flow := range m.Flows {
		if books[flow], err = prober.ReadBooks(filepath.Join(dir, booksFile(flow))); err != nil {
			return nil, err
		}
	}
	return judge(m, acts, books, ledgers), nil
}

// judge is the judgement: books by flow, ledgers by the UID of the worker's pod.
func judge(m Manifest, acts []Act, books map[string]map[string]prober.Record, ledgers map[string][]prober.Entry) *Report {
	r := &Report{
		Seed: m.Seed, Minutes: m.Length.Minutes(), Faults: map[Kind]int{}, Stalls: map[Kind]float64{}, Recovery: map[Kind]float64{},
		Wrong: slices.Clone(m.Wrong),
	}
	r.acts(acts)
	all := map[string]prober.Record{}
	owner := map[string]string{}
	for _, flow := range m.Flows {
		maps.Copy(all, books[flow])
		for id := range books[flow] {
			owner[id] = flow
		}
	}
	runs := map[string]map[string][]prober.Run{}
	for id, of := range prober.Runs(ledgers) {
		if runs[owner[id]] == nil {
			runs[owner[id]] = map[string][]prober.Run{}
		}
		runs[owner[id]][id] = of
	}
	// The ledgers are judged against the books of all flows at once, for a worker may hold what nobody submitted.
	r.Wrong = append(r.Wrong, prober.Judge(all, ledgers, Pasts(acts)).Faults...)
	var stalls []Stall
	for _, flow := range m.Flows {
		verdict := prober.Judge(books[flow], only(ledgers, owner, flow), Pasts(acts))
		r.flow(m, flow, verdict, Reruns(flow, runs[flow], acts))
		stalls = append(stalls, Stalls(flow, books[flow], runs[flow], acts, m.Ended, m.Grace)...)
	}
	r.stalls(stalls)
	return r
}

// only keeps the runs of one flow's jobs. An end belongs to the last start of its run.
func only(ledgers map[string][]prober.Entry, owner map[string]string, flow string) map[string][]prober.Entry {
	type key struct {
		boot string
		run  uint64
	}
	out := map[string][]prober.Entry{}
	for worker, entries := range ledgers {
		kept := map[key]bool{}
		for _, e := range entries {
			k := key{e.Boot, e.Run}
			if e.Status == 0 {
				kept[k] = owner[e.MessageID] == flow
			}
			if kept[k] {
				out[worker] = append(out[worker], e)
			}
		}
	}
	return out
}

// acts counts the faults and what went wrong with them.
func (r *Report) acts(acts []Act) {
	for _, a := range acts {
		r.Faults[a.Kind]++
		if a.Recovered != 0 {
			r.Recovery[a.Kind] = max(r.Recovery[a.Kind], time.Duration(a.Recovered-a.To).Seconds())
		}
		for _, fault := range a.Faults {
			r.wrong("%s (%s): %s", a.Kind, a.What, fault)
		}
	}
	if len(acts) == 0 {
		r.wrong("no fault was carried out")
	}
}

// flow judges one flow.
func (r *Report) flow(m Manifest, name string, v prober.Verdict, reruns []Rerun) {
	f := FlowReport{
		Flow: name, Submitted: v.Submitted, Accepted: v.Accepted, Confirmed: v.Confirmed + v.Forgotten, Effects: v.Effects,
		DeadLetters: v.DeadLetters, Lost: v.Lost, Runs: v.Runs, Repeats: v.Repeats, Late: v.Late, Reasons: map[Reason]int{},
	}
	unexplained := 0
	for _, rerun := range reruns {
		f.Reasons[rerun.Reason]++
		if rerun.Reason == Unexplained {
			if unexplained++; unexplained <= 20 {
				r.wrong("ran again: %s", rerun)
			}
		}
	}
	if f.Lost > 0 {
		r.wrong("%s: %d accepted jobs are lost", name, f.Lost)
	}
	if unexplained > 0 {
		r.wrong("%s: %d runs are unexplained", name, unexplained)
	}
	if f.Accepted < f.Submitted {
		r.wrong("%s: %d of %d jobs were not accepted, as often as they were submitted", name, f.Submitted-f.Accepted, f.Submitted)
	}
	if err := v.Enough(m.Length, m.LeastRate); err != nil {
		r.wrong("%s: %v", name, err)
	}
	r.Flows = append(r.Flows, f)
}

// stalls keeps the longest ones and judges all.
func (r *Report) stalls(stalls []Stall) {
	for _, s := range stalls {
		r.LongestStall = max(r.LongestStall, s.Length().Seconds())
		if s.Length() > s.Allowed {
			r.wrong("nothing was done for %s", s)
		}
	}
	for kind, s := range longest(stalls) {
		r.Stalls[kind] = s.Length().Seconds()
	}
}

func (r *Report) wrong(format string, args ...any) {
	r.Wrong = append(r.Wrong, fmt.Sprintf(format, args...))
}

// Text is the report for people, in Markdown.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Seed %d, %.1f minutes of faults.\n\n| jobs |", r.Seed, r.Minutes)
	for _, f := range r.Flows {
		fmt.Fprintf(&b, " %s |", f.Flow)
	}
	fmt.Fprintf(&b, "\n|---|%s\n", strings.Repeat("---:|", len(r.Flows)))
	row := func(what string, of func(FlowReport) int) {
		fmt.Fprintf(&b, "| %s |", what)
		for _, f := range r.Flows {
			fmt.Fprintf(&b, " %d |", of(f))
		}
		fmt.Fprintln(&b)
	}
	row("submitted", func(f FlowReport) int { return f.Submitted })
	row("accepted", func(f FlowReport) int { return f.Accepted })
	row("confirmed", func(f FlowReport) int { return f.Confirmed })
	row("dead letters, all of jobs that always fail", func(f FlowReport) int { return f.DeadLetters })
	row("**lost**", func(f FlowReport) int { return f.Lost })
	row("runs", func(f FlowReport) int { return f.Runs })
	row("of them after one that had ended well", func(f FlowReport) int { return f.Repeats })
	row("of them after the confirmation was read", func(f FlowReport) int { return f.Late })
	for _, reason := range r.reasons() {
		row("ran again: "+string(reason), func(f FlowReport) int { return f.Reasons[reason] })
	}
	row("**ran again: unexplained**", func(f FlowReport) int { return f.Reasons[Unexplained] })
	fmt.Fprintf(&b, "\nLongest stall: %.1f s.\n\n| fault | times | longest stall, s | longest recovery, s |\n|---|---:|---:|---:|\n", r.LongestStall)
	for _, kind := range r.kinds() {
		fmt.Fprintf(&b, "| %s | %d | %.1f | %.1f |\n", kind, r.Faults[kind], r.Stalls[kind], r.Recovery[kind])
	}
	for _, line := range r.Wrong {
		fmt.Fprintf(&b, "\nWRONG: %s", line)
	}
	if len(r.Wrong) == 0 {
		fmt.Fprint(&b, "\nNothing was wrong.")
	}
	return b.String() + "\n"
}

// reasons are those that were met, without Unexplained, the most frequent first.
func (r *Report) reasons() []Reason {
	counts := map[Reason]int{}
	for _, f := range r.Flows {
		for reason, n := range f.Reasons {
			counts[reason] += n
		}
	}
	delete(counts, Unexplained)
	out := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(out, func(a, b Reason) int { return cmp.Compare(counts[b], counts[a]) })
	return out
}

// kinds are those that were met, in the order of traits.
func (r *Report) kinds() (out []Kind) {
	for _, t := range traits {
		if r.Faults[t.kind] > 0 {
			out = append(out, t.kind)
		}
	}
	if _, found := r.Stalls[nothing]; found {
		out = append(out, nothing)
	}
	return out
}

// Write leaves the report in the run's directory, as text and as JSON.
func (r *Report) Write(dir string) error {
	text, err := r.JSON()
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"report.json": text, "report.md": []byte(r.Text())} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil { //nolint:gosec // a report is for everybody
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	return nil
}

// JSON is the report for programs.
func (r *Report) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the report: %w", err)
	}
	return append(text, '\n'), nil
}
