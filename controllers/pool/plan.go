package pool

import (
	"fmt"
	"slices"
)

// Verb is what is done to one worker.
type Verb string

const (
	// Remove takes a pod away that has ended, after its cause is recorded.
	Remove Verb = "Remove"
	// Release takes a worker that holds nothing: it is cordoned if it is still idle, and then deleted. If it is not, nothing happens.
	Release Verb = "Release"
	// Drain starts the drain of a worker that holds jobs, or repeats the request to one that has not heard it.
	Drain Verb = "Drain"
	// Delete deletes a worker that is drained, or that never had a job.
	Delete Verb = "Delete"
	// Expire deletes a worker that did not drain in time.
	Expire Verb = "Expire"
	// Replace deletes a worker of which nothing is left but its object.
	Replace Verb = "Replace"
	// Undrain takes a draining worker back.
	Undrain Verb = "Undrain"
	// Uncount takes a terminating pod out of the selector.
	Uncount Verb = "Uncount"
	// Relabel gives a worker the labels back that it has lost.
	Relabel Verb = "Relabel"
)

// Step is one verb for one worker.
type Step struct {
	Verb   Verb
	Worker Worker
	// Why is for people.
	Why string
}

// Plan is what one reconcile does.
type Plan struct {
	Create int
	Steps  []Step
}

func (p *Plan) add(verb Verb, w Worker, why string) {
	p.Steps = append(p.Steps, Step{Verb: verb, Worker: w, Why: why})
}

// askAbout returns the workers whose answer the plan of s depends on: those that drain, and, where some have to go, all who could.
func askAbout(s Snapshot) []Worker {
	choosing := s.rolling() || count(s.Workers, Worker.live) > s.desired()
	return filter(s.Workers, func(w Worker) bool { return w.Started && (w.leaving() || choosing && w.live()) })
}

// MakePlan decides what to do. It is pure.
func MakePlan(s Snapshot) Plan {
	var p Plan
	for _, w := range s.Workers {
		switch {
		case w.Terminal && !w.Terminating:
			p.add(Remove, w, "it has ended")
		case w.Terminating && w.Counted:
			p.add(Uncount, w, "it is being deleted")
		case w.live() && w.Mislabelled:
			p.add(Relabel, w, "it has lost a label")
		}
	}
	live := filter(s.Workers, Worker.live)
	back := planReturn(s, &p, len(live))
	planLeaving(s, &p, back)
	planUncordon(s, &p, live)

	rolling := s.rolling()
	ceiling := s.desired()
	if rolling && s.desired() > 0 {
		ceiling += s.MaxSurge
	}
	p.Create = s.creations(live, back, rolling, ceiling)
	excess := len(live) + len(back) - ceiling
	chosen := planScaleDown(s, &p, live, excess)
	if !rolling && excess <= 0 {
		planLapsed(s, &p, live)
	}
	if rolling && s.Failing == "" {
		planRollout(s, &p, without(live, chosen), len(back))
	}
	return p
}

// planReturn takes draining workers back where more are wanted than there are: they are warm, and they hold jobs.
func planReturn(s Snapshot, p *Plan, live int) []Worker {
	missing := s.desired() - live
	if missing <= 0 || s.Deleting {
		return nil
	}
	var back []Worker
	for _, w := range s.Workers {
		if len(back) < missing && w.leaving() && w.Work != nil && !s.outdated(w) && !w.AskedFor {
			back = append(back, w)
			p.add(Undrain, w, "more workers are wanted again")
		}
	}
	return back
}

// planLeaving moves on those that were chosen to leave before.
func planLeaving(s Snapshot, p *Plan, back []Worker) {
	for _, w := range without(filter(s.Workers, Worker.leaving), back) {
		switch {
		case !w.Started:
			p.add(Delete, w, "it never held a job")
		case w.Work != nil && (w.Work.Drained || w.Work.Cordoned && w.Work.InFlight == 0):
			p.add(Delete, w, "it is drained")
		case w.DrainingFor >= s.DrainTimeout:
			p.add(Expire, w, fmt.Sprintf("it did not drain within %s", s.DrainTimeout))
		case w.Work != nil && !w.Work.Draining:
			p.add(Drain, w, "it has not started to drain")
		}
	}
}

// planUncordon frees workers that were cordoned by a reconcile that did not come to its end.
func planUncordon(s Snapshot, p *Plan, live []Worker) {
	if len(live) > s.desired() || s.rolling() {
		return
	}
	for _, w := range live {
		if w.Work != nil && w.Work.Cordoned {
			p.add(Undrain, w, "it is cordoned for no reason")
		}
	}
}

func (s Snapshot) creations(live, back []Worker, rolling bool, ceiling int) int {
	if !s.MayCreate || s.Deleting {
		return 0
	}
	total := len(live) + len(back)
	missing := s.desired() - total
	if rolling && s.Failing == "" {
		current := len(back) + count(live, func(w Worker) bool { return !s.outdated(w) })
		missing = min(s.desired()-current, ceiling-total)
	}
	return max(missing, 0)
}

// planScaleDown chooses excess workers to leave.
func planScaleDown(s Snapshot, p *Plan, live []Worker, excess int) []Worker {
	if excess <= 0 {
		return nil
	}
	why := fmt.Sprintf("%d workers are wanted", s.desired())
	if s.Deleting {
		why = "the pool is being deleted"
	}
	chosen := s.victims(live)[:min(excess, len(live))]
	for _, w := range chosen {
		p.dismiss(w, why)
	}
	return chosen
}

// planRollout replaces workers of an old revision, as far as enough others are ready.
func planRollout(s Snapshot, p *Plan, live []Worker, back int) {
	current := filter(live, func(w Worker) bool { return !s.outdated(w) })
	old := s.victims(filter(live, s.outdated))
	minAvailable := max(s.desired()-s.MaxUnavailable, 0)
	currentUnready := len(current) - count(current, ready)
	// As in a Deployment: a new worker that is not ready must not be compensated by old ones that go.
	budget := len(live) + back - minAvailable - currentUnready
	spare := count(live, ready) + back - minAvailable
	for _, w := range old {
		if budget <= 0 {
			return
		}
		if w.Ready {
			if spare <= 0 {
				continue
			}
			spare--
		}
		budget--
		p.dismiss(w, "it is of an old revision")
	}
}

func ready(w Worker) bool { return w.Ready }

// dismiss makes a worker leave in the way its state allows.
func (p *Plan) dismiss(w Worker, why string) {
	switch {
	case !w.Started:
		p.add(Delete, w, why)
	case w.surelyIdle():
		p.add(Release, w, why)
	default:
		p.add(Drain, w, why)
	}
}

func filter(workers []Worker, keep func(Worker) bool) []Worker {
	var kept []Worker
	for _, w := range workers {
		if keep(w) {
			kept = append(kept, w)
		}
	}
	return kept
}

func count(workers []Worker, is func(Worker) bool) int { return len(filter(workers, is)) }

func without(workers, others []Worker) []Worker {
	return filter(workers, func(w Worker) bool {
		return !slices.ContainsFunc(others, func(o Worker) bool { return o.UID == w.UID })
	})
}
