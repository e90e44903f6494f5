package chaos

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/workpulling/workpulling/test/prober"
)

// Reason is why a job ran once more.
type Reason string

// The reasons. The first three come from the job's own past, the others from a fault that is on record.
const (
	ReasonFailed         Reason = "the run before failed, as the app does on purpose"
	ReasonSlow           Reason = "the run before took longer than the handler timeout"
	ReasonAgain          Reason = "submitted again after the deduplication window"
	ReasonWorkerKilled   Reason = "the worker of the run before, or its sidecar or app, was killed"
	ReasonNodeCutOff     Reason = "one of the two workers, or the producer, was on a node that was cut off"
	ReasonProducerKilled Reason = "the producer was killed"
	ReasonTakeover       Reason = "the producer was paused and another took over"
	ReasonDatabaseAway   Reason = "the database was away"
	ReasonPast           Reason = "the cluster's objects went back in time"
	Unexplained          Reason = "unexplained"
)

// aftermath is how long after a fault is undone a run may begin and still be one that the fault makes run again: a process that was killed
// is let go, and a queue that is back is written, a little later.
const aftermath = 5 * time.Second

// Rerun is a run of a job after its first.
type Rerun struct {
	ID     string
	Flow   string
	Before prober.Run
	Run    prober.Run
	Reason Reason
}

func (r Rerun) String() string {
	return fmt.Sprintf("%s of %s: attempt %d on %s from %s to %s (status %d), then attempt %d on %s from %s on: %s", r.ID, r.Flow,
		r.Before.Attempt, r.Before.Worker, clock(r.Before.Began), clock(r.Before.Ended), r.Before.Status, r.Run.Attempt, r.Run.Worker, clock(r.Run.Began), r.Reason)
}

func clock(at prober.Moment) string {
	if at == 0 {
		return "its end"
	}
	return time.Duration(at).Round(time.Millisecond).String()
}

// Reruns explains every run of a flow's jobs after the first of each, by the acts on record.
func Reruns(flow string, runs map[string][]prober.Run, acts []Act) (out []Rerun) {
	for _, id := range slices.Sorted(maps.Keys(runs)) {
		for i, run := range runs[id] {
			if i == 0 {
				continue
			}
			r := Rerun{ID: id, Flow: flow, Before: runs[id][i-1], Run: run}
			r.Reason = r.explain(acts)
			out = append(out, r)
		}
	}
	return out
}

// explain finds the reason that says most: what the app itself did comes first, then the worker's fate, then the producer's.
func (r Rerun) explain(acts []Act) Reason {
	if status := r.Before.Status; status != 0 && !r.Before.Good() {
		return ReasonFailed
	}
	until := r.Before.Ended
	if until == 0 {
		until = r.Run.Began
	}
	if slow := time.Duration(min(until, r.Run.Began) - r.Before.Began); r.Before.Status != 0 && slow >= prober.HandlerTimeout-timeoutSlack {
		return ReasonSlow
	}
	hit := func(about func(Act) bool) Reason {
		for _, a := range acts {
			if reason := traitOf(a.Kind).reason; reason != "" && about(a) && a.overlaps(r.Before.Began, r.Run.Began, aftermath) {
				return reason
			}
		}
		return ""
	}
	for _, a := range acts {
		if a.From <= r.Run.Began && (slices.Contains(a.Orphans, r.Before.Worker) || slices.Contains(a.Orphans, r.Run.Worker)) {
			return traitOf(a.Kind).reason
		}
	}
	byWorker := hit(func(a Act) bool {
		return slices.Contains(a.Workers, r.Before.Worker) || slices.Contains(a.Workers, r.Run.Worker)
	})
	byProducer := hit(func(a Act) bool { return slices.Contains(a.Flows, r.Flow) })
	switch {
	case byWorker != "":
		return byWorker
	case byProducer != "":
		return byProducer
	case r.Before.Good() && time.Duration(r.Run.Began-r.Before.Ended) > prober.DeduplicationWindow:
		return ReasonAgain
	default:
		return Unexplained
	}
}

// timeoutSlack is how much earlier than the ledger shows a sidecar may have begun to wait for the app.
const timeoutSlack = 500 * time.Millisecond

// Pasts are those of the workers' sidecars, as far as faults ended them: a new one began right after each end.
func Pasts(acts []Act) map[string]prober.Past {
	out := map[string]prober.Past{}
	for _, a := range acts {
		for _, worker := range a.Sidecars {
			past := out[worker]
			if len(past.Sidecars) == 0 {
				past.Sidecars = []prober.Span{{}}
			}
			past.Sidecars[len(past.Sidecars)-1].To = a.To
			past.Sidecars = append(past.Sidecars, prober.Span{From: a.To})
			out[worker] = past
		}
	}
	return out
}
