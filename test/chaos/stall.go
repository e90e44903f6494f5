package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/workpulling/workpulling/test/prober"
)

// Stall is a stretch of time in which accepted jobs of a flow waited and none was brought to its end.
type Stall struct {
	Flow string
	From prober.Moment
	To   prober.Moment
	// During are the faults that stood meanwhile, or from which the cluster had not recovered.
	During []Kind
	// Allowed is how long it may be: the grace, and as long as faults stood that halt the flow.
	Allowed time.Duration
}

// Length is how long it was.
func (s Stall) Length() time.Duration { return time.Duration(s.To - s.From) }

func (s Stall) String() string {
	return fmt.Sprintf("%s of %s during %v (allowed: %s)", s.Length().Round(time.Millisecond), s.Flow, s.During, s.Allowed.Round(time.Second))
}

// Stalls finds the stalls of a flow. A job waits from its acceptance until it is done: its first run that ended well, or what the intake
// said of it. Jobs that always fail are left out, for they wait on purpose.
func Stalls(flow string, records map[string]prober.Record, runs map[string][]prober.Run, acts []Act, end prober.Moment, grace time.Duration) []Stall {
	var out []Stall
	waiting, last := 0, prober.Moment(0)
	for _, c := range changes(records, runs, end) {
		switch {
		case c.waits && waiting == 0:
			last = c.at
		case !c.waits && waiting > 0:
			out = append(out, Stall{Flow: flow, From: last, To: c.at}.judge(acts, grace))
			last = c.at
		}
		if c.waits {
			waiting++
		} else if c.ends {
			waiting--
		}
	}
	if waiting > 0 {
		out = append(out, Stall{Flow: flow, From: last, To: end}.judge(acts, grace))
	}
	return out
}

// change is a moment at which a job begins to wait, or one is done.
type change struct {
	at    prober.Moment
	waits bool
	// ends: the job that is done was waiting.
	ends bool
}

func changes(records map[string]prober.Record, runs map[string][]prober.Run, end prober.Moment) []change {
	var out []change
	for id, r := range records {
		if !r.Accepted || prober.Poisoned(id) {
			continue
		}
		done := r.SettledAt
		for _, run := range runs[id] {
			if run.Good() && (done == 0 || run.Ended < done) {
				done = run.Ended
			}
		}
		if done == 0 || done > end {
			out = append(out, change{at: r.AcceptedAt, waits: true})
			continue
		}
		if done > r.AcceptedAt { // else it was done before its answer was read
			out = append(out, change{at: r.AcceptedAt, waits: true})
		}
		out = append(out, change{at: done, ends: done > r.AcceptedAt})
	}
	slices.SortFunc(out, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	return out
}

// judge finds out what went on during a stall and how long it may be.
func (s Stall) judge(acts []Act, grace time.Duration) Stall {
	s.Allowed = grace
	for _, a := range acts {
		if a.From > s.To || s.From > max(a.To, a.Recovered) {
			continue
		}
		s.During = append(s.During, a.Kind)
		if slices.Contains(a.Halts, s.Flow) {
			s.Allowed += a.length()
		}
	}
	return s
}

// longest keeps the longest stall of each kind of fault; one during no fault is that of nothing.
func longest(stalls []Stall) map[Kind]Stall {
	out := map[Kind]Stall{}
	for _, s := range stalls {
		kinds := s.During
		if len(kinds) == 0 {
			kinds = []Kind{nothing}
		}
		for _, k := range kinds {
			if s.Length() > out[k].Length() {
				out[k] = s
			}
		}
	}
	return out
}
