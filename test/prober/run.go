package prober

import (
	"cmp"
	"maps"
	"slices"
)

// Run is one run of a job by an app.
type Run struct {
	Worker  string // the UID of its pod
	Attempt int
	Began   Moment
	// Ended is 0 for a run that ended with its app.
	Ended  Moment
	Status int
}

// Good says whether it ended well.
func (r Run) Good() bool { return good(r.Status) }

// Runs are those of every job in the ledgers, by message id, in order of their beginning.
func Runs(ledgers map[string][]Entry) map[string][]Run {
	type key struct {
		worker, boot string
		run          uint64
	}
	open := map[key]*Run{}
	found := map[string][]*Run{}
	for _, worker := range slices.Sorted(maps.Keys(ledgers)) {
		for _, e := range ledgers[worker] {
			k := key{worker, e.Boot, e.Run}
			if e.Status == 0 {
				open[k] = &Run{Worker: worker, Attempt: e.Attempt, Began: e.At}
				found[e.MessageID] = append(found[e.MessageID], open[k])
			} else if r := open[k]; r != nil {
				r.Ended, r.Status = e.At, e.Status
			}
		}
	}
	out := map[string][]Run{}
	for id, runs := range found {
		slices.SortFunc(runs, func(a, b *Run) int { return cmp.Compare(a.Began, b.Began) })
		for _, r := range runs {
			out[id] = append(out[id], *r)
		}
	}
	return out
}
