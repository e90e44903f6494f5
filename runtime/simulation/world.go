package simulation

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"
)

// Limits within which a healed world must finish. They are generous: a run near them is a livelock.
const (
	healLimit  = 20 * time.Minute
	stepLimit  = 600_000
	quietAfter = 45 * time.Second
	quietSpan  = time.Minute
	settlePoll = 500 * time.Millisecond
)

// Violation is one broken invariant.
type Violation struct {
	Invariant string
	Detail    string
	Step      int
	At        time.Duration
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s at step %d (%v): %s", v.Invariant, v.Step, v.At, v.Detail)
}

// world is everything there is, driven by one timeline.
type world struct {
	seed     uint64
	profile  Profile
	tunables tunables
	machines Machines
	rng      *rand.Rand

	timeline timeline
	now      time.Duration
	step     int
	healing  bool
	over     bool
	trace    *trace
	counts   Counts

	flows     []*flow
	pods      []*pod // the living ones
	intruders []*intruder
	names     int

	quietMessages uint64
	violation     *Violation
}

// Options shape a run; the zero value runs the real machines without a text trace.
type Options struct {
	// Profile forces a profile; nil lets the seed choose.
	Profile *Profile
	// Machines replaces the machines; the zero value means RealMachines.
	Machines Machines
	// Trace keeps the last so many lines of readable trace; 0 keeps only the hash of what happened.
	Trace int
}

// Result is the outcome of a run.
type Result struct {
	Seed      uint64
	Profile   string
	Violation *Violation
	Counts    Counts
	// Hash identifies the trace: equal hashes mean equal runs.
	Hash  uint64
	Trace []string
}

// Run builds the world of a seed, lets the storm rage, heals it, waits for the peace that must follow and returns what it saw.
func Run(seed uint64, options Options) Result {
	w := newWorld(seed, options)
	w.live()
	w.counts.Runs, w.counts.Steps = 1, uint64(w.step)
	w.counts.Profiles = map[string]uint64{w.profile.Name: 1}
	return Result{
		Seed: seed, Profile: w.profile.Name, Violation: w.violation, Counts: w.counts, Hash: w.trace.hash, Trace: w.trace.tail(),
	}
}

// live runs the world to its end. A panic of a machine is a violation like any other, with its seed.
func (w *world) live() {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case disagreement:
			w.violate("queue", "%s", string(r))
		default:
			w.violate("panic", "%v\n%s", r, debug.Stack())
		}
	}()
	w.populate()
	for w.violation == nil && !w.over {
		m, ok := w.timeline.next()
		if !ok {
			w.violate("I-10", "the world ran out of events")
			break
		}
		w.now = m.at
		w.step++
		if w.step > stepLimit {
			w.violate("I-10", "livelock: %d steps and no end; %s", w.step, w.unfinished())
			break
		}
		m.run()
	}
}

func newWorld(seed uint64, options Options) *world {
	rng := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	w := &world{seed: seed, rng: rng, machines: options.Machines, trace: newTrace(options.Trace)}
	if w.machines.Controller == nil {
		w.machines = RealMachines(seed%2 == 0)
	}
	// The draw happens always, so that a forced profile does not shift the rest of the randomness.
	w.profile = Profiles[rng.IntN(len(Profiles))]
	if options.Profile != nil {
		w.profile = *options.Profile
	}
	w.tunables = w.profile.draw(rng)
	for range max(1, between(rng, w.profile.Flows)) {
		w.addFlow()
	}
	return w
}

// openQueue makes an empty queue: the first, or the next one of a volatile flow.
func (w *flow) openQueue() {
	var err error
	if w.store, err = w.machines.Queue(func() time.Duration { return w.now }); err != nil {
		w.violate("queue", "open: %v", err)
	}
}

func (w *world) populate() {
	for range between(w.rng, w.profile.Workers) {
		w.addPod()
	}
	for _, f := range w.flows {
		f.begin()
	}
	w.plan(w.someTime(w.profile.FaultEvery), w.chaos)
	w.plan(w.profile.Storm, w.heal)
}

func (w *world) plan(after time.Duration, run func()) { w.timeline.plan(w.now+max(0, after), run) }

func (w *world) chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

// someTime is exponentially distributed around a mean, at most ten times it.
func (w *world) someTime(mean time.Duration) time.Duration {
	return time.Duration(min(10, w.rng.ExpFloat64()) * float64(mean))
}

// upTo is uniform in [0, limit).
func (w *world) upTo(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return time.Duration(w.rng.Int64N(int64(limit)))
}

func (w *world) name(kind string) string {
	w.names++
	return fmt.Sprintf("%s%d", kind, w.names)
}

func (w *world) count(f Fault) { w.counts.Faults[f]++ }

func (w *world) violate(invariant, format string, args ...any) {
	if w.violation == nil {
		w.violation = &Violation{Invariant: invariant, Detail: fmt.Sprintf(format, args...), Step: w.step, At: w.now}
		w.note("world", "VIOLATION %s: %s", invariant, w.violation.Detail)
	}
}

// heal ends the storm: from here on the network is whole, the queue works, handlers succeed and at least one worker lives.
func (w *world) heal() {
	w.healing = true
	w.note("world", "the storm is over")
	for _, i := range w.intruders {
		i.leave()
	}
	for _, f := range w.flows {
		f.heal()
	}
	w.healPods()
	w.plan(settlePoll, w.settle)
}

// progressWithin is how long a healthy job may take beside stuck ones.
const progressWithin = 30 * time.Second

// checkProgress is B-233: what cannot be confirmed holds up nothing else, neither jobs nor credit.
func (w *flow) checkProgress() {
	since := w.now - progressWithin
	for _, f := range w.ledger.open {
		if f.storedAt < since && !w.stuck[f.ref.MessageID] {
			w.violate("I-10", "%v waits behind stuck confirms since %v", f.ref, f.storedAt)
		}
	}
	for _, s := range w.submitters {
		for _, sub := range s.source {
			if !sub.answered && sub.due < since {
				w.violate("I-10", "%s gets no credit for %s since %v, behind stuck confirms", s.name, sub.job.MessageID, sub.due)
			}
		}
	}
}

// settle waits until everything is done, then for quiet, then looks at the books one last time.
func (w *world) settle() {
	switch reason := w.unfinished(); {
	case reason == "":
		w.note("world", "all is done, waiting for quiet")
		w.plan(quietAfter, func() {
			w.quietMessages = w.counts.Messages
			writes := w.writes()
			w.plan(quietSpan, func() { w.finish(writes) })
		})
	case w.now > w.profile.Storm+healLimit:
		w.violate("I-10", "not finished %v after the storm: %s", w.now-w.profile.Storm, reason)
	default:
		w.plan(settlePoll, w.settle)
	}
}

// unfinished says what still has to happen after the storm, or nothing.
func (w *world) unfinished() string {
	for _, f := range w.flows {
		if n := len(f.ledger.open); n > 0 {
			return fmt.Sprintf("%d stored jobs of %s are unsettled, the first is %v", n, f.title, f.ledger.open[0].ref)
		}
		if w.now < f.lastCommit {
			return fmt.Sprintf("an operation on the queue of %s may take effect until %v", f.title, f.lastCommit)
		}
		for _, s := range f.submitters {
			if reason := s.unfinished(); reason != "" {
				return s.name + ": " + reason
			}
		}
	}
	for _, p := range w.pods {
		if reason := p.unfinished(); reason != "" {
			return p.name + ": " + reason
		}
	}
	return ""
}

func (w *world) finish(writes uint64) {
	if reason := w.unfinished(); reason != "" {
		w.violate("I-10", "finished and then not: %s", reason)
	}
	if n := w.writes() - writes; n > 0 {
		w.violate("I-10", "%d queue writes in a quiet minute", n)
	}
	c := w.tunables.controller
	perMinute := func(d time.Duration) uint64 { return uint64(time.Minute / d) }
	allowed := uint64(len(w.pods)*len(w.flows)) * (2*perMinute(c.Heartbeat) + 6*perMinute(w.tunables.consumer.ResendInterval) + 10)
	for _, f := range w.flows {
		allowed += uint64(len(f.submitters)) * (3*perMinute(c.RetryInterval) + 10)
	}
	if n := w.counts.Messages - w.quietMessages; n > allowed {
		w.violate("I-10", "%d messages in a quiet minute, at most %d are reasonable", n, allowed)
	}
	for _, f := range w.flows {
		f.ledger.finish()
		for _, p := range f.producers {
			p.view.finish()
		}
	}
	w.over = true
}

// writes counts what controllers and people wrote to all queues.
func (w *world) writes() (n uint64) {
	for _, f := range w.flows {
		n += f.ledger.writes
	}
	return n
}
