package chaos

import (
	"time"

	"github.com/workpulling/workpulling/test/prober"
)

// Act is a fault that was carried out: the evidence that the judgement has of it.
type Act struct {
	Kind Kind `json:"kind"`
	// From is a moment before it, To one after it was undone.
	From prober.Moment `json:"from"`
	To   prober.Moment `json:"to"`
	// Recovered is when every flow confirmed new jobs again and every pod was ready.
	Recovered prober.Moment `json:"recovered,omitempty"`
	// What names whom it hit, for people.
	What string `json:"what"`
	// Workers are the UIDs of the worker pods that it hit, Sidecars those of them whose sidecar it killed alone.
	Workers  []string `json:"workers,omitempty"`
	Sidecars []string `json:"sidecars,omitempty"`
	// Orphans are the UIDs of worker pods that went on though the cluster does not know them any more, for as long as kubelets let them.
	Orphans []string `json:"orphans,omitempty"`
	// Flows are those whose producer or queue it hit, Halts those that nobody can serve while it stands.
	Flows []string `json:"flows,omitempty"`
	Halts []string `json:"halts,omitempty"`
	// Killed are the UIDs of pods of which it ended a process, as often as it did so.
	Killed []string `json:"killed,omitempty"`
	// Faults say what went wrong with it.
	Faults []string `json:"faults,omitempty"`

	beside []Act // what was done while it stood
}

// length is how long it stood.
func (a Act) length() time.Duration { return time.Duration(a.To - a.From) }

// overlaps says whether it stood in a stretch of time, or was over for less than after.
func (a Act) overlaps(from, to prober.Moment, after time.Duration) bool {
	return a.From <= to && from <= a.To+prober.Moment(after)
}
