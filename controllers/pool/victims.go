package pool

import (
	"cmp"
	"slices"
)

// victims orders workers by who leaves first: not ready with nothing in flight, old revision, asked for, idle longest, fewest
// in flight, newest. A worker that did not answer counts as the busiest. Terminating and failed ones are gone already and not in here.
func (s Snapshot) victims(workers []Worker) []Worker {
	sorted := slices.Clone(workers)
	slices.SortFunc(sorted, func(a, b Worker) int {
		return cmp.Or(
			first(!a.Ready && a.surelyIdle(), !b.Ready && b.surelyIdle()),
			first(!a.Started, !b.Started),
			first(s.outdated(a), s.outdated(b)),
			first(a.AskedFor, b.AskedFor),
			first(a.surelyIdle(), b.surelyIdle()),
			-cmp.Compare(a.idle(), b.idle()),
			cmp.Compare(a.load(), b.load()),
			cmp.Compare(a.Age, b.Age),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return sorted
}

func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func (w Worker) idle() int64 {
	if w.Work == nil || w.Work.InFlight > 0 {
		return 0
	}
	return int64(w.Work.Idle)
}

func (w Worker) load() int {
	if w.Work == nil {
		return int(^uint(0) >> 1)
	}
	return w.Work.InFlight
}
