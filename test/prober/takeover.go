package prober

import (
	"maps"
	"slices"
	"time"
)

// Takeovers tells for each kill of the active producer how long it took until the app began a job that was submitted after the kill:
// only another producer can have stored and dispatched that one. A kill that no such job followed is left out.
func Takeovers(kills []Moment, records map[string]Record, ledgers map[string][]Entry) []time.Duration {
	var begun []Entry
	for _, worker := range slices.Sorted(maps.Keys(ledgers)) {
		for _, e := range ledgers[worker] {
			if e.Status == 0 {
				begun = append(begun, e)
			}
		}
	}
	slices.SortFunc(begun, func(a, b Entry) int { return int(min(max(a.At-b.At, -1), 1)) })
	var out []time.Duration
	for _, kill := range kills {
		from, _ := slices.BinarySearchFunc(begun, kill, func(e Entry, at Moment) int { return int(min(max(e.At-at, -1), 1)) })
		at := slices.IndexFunc(begun[from:], func(e Entry) bool { return records[e.MessageID].SubmittedAt > kill })
		if at >= 0 {
			out = append(out, time.Duration(begun[from+at].At-kill))
		}
	}
	return out
}
