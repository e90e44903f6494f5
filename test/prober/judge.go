package prober

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Verdict compares the books of the submitters with the ledgers of the workers.
type Verdict struct {
	Submitted, Accepted int
	// Confirmed counts accepted jobs of which the intake says so, Effects those of them with a run that ended well on the right content.
	Confirmed, Effects int
	// DeadLetters counts accepted jobs that became one, as those do that always fail.
	DeadLetters int
	// Runs counts starts; Reruns those after the first of each job; Repeats those that began after an earlier run had ended well.
	Runs, Reruns, Repeats int
	// Unfinished counts runs that never ended, because their app was killed.
	Unfinished int
	// Late counts runs that began after the observer had read that the job is confirmed. A worker or an app that was paused with the
	// job in its hands does that when it goes on.
	Late int
	// LateRuns says which, a line each, at most ten.
	LateRuns []string
	// Together counts runs that began beside another of the same job on the same worker, which must not be (I-9).
	Together int
	// Beside counts such runs that the sidecar could not know of any more.
	Beside int
	// Faults are what must not be, one line each, at most a hundred.
	Faults []string
	// Forgotten counts accepted jobs that the observer asked after too late: their effect was older than the deduplication window.
	Forgotten int
	// Lost counts accepted jobs that are neither confirmed nor a rightful dead letter, or have no effect though confirmed.
	Lost int
}

// good is an answer that confirms.
func good(status int) bool { return status >= 200 && status < 300 }

type history struct {
	starts, ends int
	effect       bool
	firstGood    Moment
	begun        []begin
}

// begin is the start of a run.
type begin struct {
	at      Moment
	worker  string
	attempt int
}

// Judge compares. Records are by message id, ledgers and pasts by the UID of the worker's pod.
func Judge(records map[string]Record, ledgers map[string][]Entry, pasts map[string]Past) Verdict {
	v := Verdict{Submitted: len(records)}
	histories := map[string]*history{}
	for _, worker := range slices.Sorted(maps.Keys(ledgers)) {
		v.readLedger(worker, ledgers[worker], pasts[worker], records, histories)
	}
	for _, id := range slices.Sorted(maps.Keys(records)) {
		h := histories[id]
		if h == nil {
			h = &history{}
		}
		v.judgeJob(id, records[id], h)
	}
	return v
}

// readLedger follows one worker, and looks for two runs of one job at a time (I-9).
func (v *Verdict) readLedger(worker string, entries []Entry, past Past, records map[string]Record, histories map[string]*history) {
	type key struct {
		boot string
		run  uint64
	}
	open := map[key]Entry{}
	running := map[string]map[string][]Entry{} // boot → message id → runs
	for _, e := range entries {
		k := key{e.Boot, e.Run}
		if running[e.Boot] == nil {
			running[e.Boot] = map[string][]Entry{} // the one before was killed, and its runs with it
		}
		if e.Status == 0 {
			record, known := records[e.MessageID]
			if !known {
				v.fault("worker %s ran %s, which nobody submitted", worker, e.MessageID)
			} else if record.SHA256 != e.SHA256 {
				v.fault("worker %s ran %s with another content", worker, e.MessageID)
			}
			v.together(worker, e, running[e.Boot][e.MessageID], past)
			running[e.Boot][e.MessageID] = append(running[e.Boot][e.MessageID], e)
			h := histories[e.MessageID]
			if h == nil {
				h = &history{}
				histories[e.MessageID] = h
			}
			h.starts++
			h.begun = append(h.begun, begin{e.At, worker, e.Attempt})
			open[k] = e
			continue
		}
		start, ok := open[k]
		if !ok {
			v.fault("worker %s ended a run that never began", worker)
			continue
		}
		delete(open, k)
		running[e.Boot][start.MessageID] = slices.DeleteFunc(running[e.Boot][start.MessageID], func(r Entry) bool { return r.Run == e.Run })
		h := histories[start.MessageID]
		h.ends++
		if good(e.Status) {
			h.effect = h.effect || records[start.MessageID].SHA256 == start.SHA256
			if h.firstGood == 0 || e.At < h.firstGood {
				h.firstGood = e.At
			}
		}
	}
	v.Unfinished += len(open)
}

// together judges a run that began while others of its job were going on in the same process of the app.
func (v *Verdict) together(worker string, begun Entry, others []Entry, past Past) {
	for _, other := range others {
		if past.freed(other.At, begun.At) {
			v.Beside++
			continue
		}
		v.Together++
		v.fault("I-9: worker %s ran %s twice at once: attempt %d from %s on, attempt %d from %s on", worker, begun.MessageID,
			other.Attempt, time.Duration(other.At), begun.Attempt, time.Duration(begun.At))
	}
}

func (v *Verdict) judgeJob(id string, r Record, h *history) {
	v.Runs += h.starts
	v.Reruns += max(h.starts-1, 0)
	for _, b := range h.begun {
		if h.firstGood != 0 && b.at > h.firstGood {
			v.Repeats++
		}
		if r.State == StateConfirmed && r.SettledAt != 0 && b.at > r.SettledAt {
			v.Late++
			if len(v.LateRuns) < 10 {
				v.LateRuns = append(v.LateRuns, fmt.Sprintf("%s, attempt %d, on worker %s at %s, %s after its confirmation was read", id, b.attempt, b.worker,
					time.Duration(b.at), time.Duration(b.at-r.SettledAt)))
			}
		}
	}
	if !r.Accepted {
		return
	}
	v.Accepted++
	switch {
	case r.State == StateDeadLettered && Poisoned(id):
		v.DeadLetters++
		if h.effect {
			v.fault("%s always fails and has an effect", id)
		}
	case r.State == StateDeadLettered:
		v.fault("%s became a dead letter after %d runs", id, h.starts)
		v.Lost++
	case r.State == StateConfirmed && !h.effect:
		v.fault("%s is confirmed and no run of it ended well", id)
		v.Lost++
	case r.State == StateVanished && h.effect && r.SettledAt-h.firstGood >= Moment(DeduplicationWindow):
		v.Forgotten++
		v.Effects++
	case r.State == StateConfirmed:
		v.Confirmed++
		v.Effects++
	default:
		v.fault("%s was accepted and is %q after %d runs", id, r.State, h.starts)
		v.Lost++
	}
}

func (v *Verdict) fault(format string, args ...any) {
	if len(v.Faults) < 100 {
		v.Faults = append(v.Faults, fmt.Sprintf(format, args...))
	}
}

// Enough says what is wrong with a load that is too small for its length to prove anything: it got through fewer jobs a second than rate.
func (v Verdict) Enough(length time.Duration, rate float64) error {
	if least := int(rate * length.Seconds()); v.Accepted < least {
		return fmt.Errorf("%d jobs were accepted in %s, at least %d are needed: the run proves too little", v.Accepted, length, least)
	}
	return nil
}

// DeduplicationWindow of the flows that are loaded is short, so that a long run sees tombstones go and memory stay, and longer than a job
// should wait for a look.
const DeduplicationWindow = 4 * time.Minute
