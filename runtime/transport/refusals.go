package transport

import (
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// refusalLine is how often a line about one label goes into a log.
const refusalLine = time.Minute

// Refusals counts refused identities by a closed set of labels, and says when one of a label is worth a line. The zero value is ready.
type Refusals struct {
	mu     sync.Mutex
	counts map[Label]uint64
	lines  map[Label]time.Time // when the last line was
	told   map[Label]uint64    // counts at the last line
}

// add counts a refusal. line says whether to log it, which is once in a while for a label, and others how many were refused for the same
// reason since the last line.
func (r *Refusals) add(label Label, now time.Time) (line bool, others uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts, r.lines, r.told = map[Label]uint64{}, map[Label]time.Time{}, map[Label]uint64{}
	}
	r.counts[label]++
	if last, before := r.lines[label]; before && now.Sub(last) < refusalLine {
		return false, 0
	}
	others = r.counts[label] - r.told[label] - 1
	r.lines[label], r.told[label] = now, r.counts[label]
	return true, others
}

// Counts are the refusals of each label so far.
func (r *Refusals) Counts() map[Label]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts)
}

// Note counts a refusal, and logs it at most once a minute for each label.
func (r *Refusals) Note(log logr.Logger, refusal *Refusal, now time.Time) {
	if line, others := r.add(refusal.Label, now); line {
		log.Info("refused a caller; more for the same reason are counted and not logged for a minute",
			"label", refusal.Label, "reason", refusal.Reason, "others", others)
	}
}
