package endpoint

import (
	"slices"
	"sort"
	"time"
)

// maxAges bounds the samples; beyond it every second one of the older half goes, which coarsens old ages only.
const maxAges = 4096

// ages tells roughly when a store sequence was stored: it remembers the first sequence of each second. Wall-clock, for people.
type ages struct{ samples []ageSample }

type ageSample struct {
	seq int64
	at  time.Time
}

func (a *ages) add(seq int64, at time.Time) {
	if n := len(a.samples); n > 0 {
		newest := a.samples[n-1]
		if seq <= newest.seq || at.Sub(newest.at) < time.Second {
			return
		}
		if n == maxAges {
			a.thin()
		}
	}
	a.samples = append(a.samples, ageSample{seq, at})
}

func (a *ages) thin() {
	half := len(a.samples) / 2
	kept := a.samples[:0]
	for i, sample := range a.samples {
		if i >= half || i%2 == 0 {
			kept = append(kept, sample)
		}
	}
	a.samples = slices.Clip(kept)
}

// of returns how long ago seq was stored; 0 for 0, no jobs.
func (a *ages) of(seq int64, now time.Time) time.Duration {
	if seq == 0 || len(a.samples) == 0 {
		return 0
	}
	after := sort.Search(len(a.samples), func(i int) bool { return a.samples[i].seq > seq })
	return max(now.Sub(a.samples[max(after-1, 0)].at), 0)
}
