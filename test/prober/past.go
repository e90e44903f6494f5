package prober

import (
	"slices"
	"time"
)

// Span is a stretch of time. To is 0 while it lasts.
type Span struct{ From, To Moment }

// Past is what the bed did to the pod of one worker, in order.
type Past struct {
	// Sidecars are the lives of the sidecar's processes: each from before it was started to before it was killed.
	Sidecars []Span
	// Pauses are those of the app.
	Pauses []Span
}

// onTheWay is how long a request may take from the sidecar to the ledger of an app that is not paused, on a machine that is overloaded.
const onTheWay = 2 * time.Second

// freed says whether the worker may have run a job at the moment second though a run of it that began at first had not ended: a sidecar
// died after it had asked for the first, and one that was started since then lived for the handler timeout. It cannot know more of what the
// one before it left behind (docs/design/running-set.md).
func (p Past) freed(first, second Moment) bool {
	asked := p.asked(first)
	return slices.ContainsFunc(p.Sidecars, func(dead Span) bool {
		return dead.To != 0 && dead.To >= asked && dead.To <= second && slices.ContainsFunc(p.Sidecars, func(next Span) bool {
			free := next.From + Moment(HandlerTimeout)
			return next.From >= dead.To && free <= second && (next.To == 0 || next.To >= free)
		})
	})
}

// asked is the earliest moment at which a sidecar can have asked for a run that began at begun: its request waits in the socket of an app
// that is paused.
func (p Past) asked(begun Moment) Moment {
	at := begun - Moment(onTheWay)
	for _, pause := range slices.Backward(p.Pauses) {
		if pause.From <= begun && (pause.To == 0 || pause.To >= at) {
			at = min(at, pause.From-Moment(onTheWay))
		}
	}
	return at
}
