package endpoint

import (
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling/runtime/transport"
)

// Refusals counts refused identities by a closed set of labels, and says when one of a label is worth a line. The zero value is ready.
type Refusals struct {
	mu     sync.Mutex
	counts map[transport.Label]uint64
	lines  map[transport.Label]*pace
	told   map[transport.Label]uint64 // counts at the last line
}

// add counts a refusal. line says whether to log it, which is once in a while for a label, and others how many were refused for the same
// reason since the last line.
func (r *Refusals) add(label transport.Label, now time.Time) (line bool, others uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts, r.lines, r.told = map[transport.Label]uint64{}, map[transport.Label]*pace{}, map[transport.Label]uint64{}
	}
	r.counts[label]++
	if r.lines[label] == nil {
		r.lines[label] = new(pace)
	}
	if !r.lines[label].due(now) {
		return false, 0
	}
	others = r.counts[label] - r.told[label] - 1
	r.told[label] = r.counts[label]
	return true, others
}

func (r *Refusals) snapshot() map[transport.Label]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.counts)
}

// Note counts a refusal, and logs it at most once a minute for each label.
func (r *Refusals) Note(log logr.Logger, refusal *transport.Refusal, now time.Time) {
	if line, others := r.add(refusal.Label, now); line {
		log.Info("refused a caller; more for the same reason are counted and not logged for a minute",
			"label", refusal.Label, "reason", refusal.Reason, "others", others)
	}
}

// NoteRefusal notes a refusal of the flow. Those outside of this package, such as in the HTTP intake, are told here too.
func (p *Producer) NoteRefusal(refusal *transport.Refusal) {
	p.refused.Note(p.log, refusal, p.options.Clock.Now())
}
