package pool

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	newest = "rev-2"
	oldest = "rev-1"
)

// workerBuilder makes a ready, idle worker of the newest revision.
type workerBuilder struct{ w Worker }

func make1(name string) *workerBuilder {
	return &workerBuilder{Worker{
		Name: name, UID: name, Age: time.Hour, Revision: newest, RuntimeRevision: "rt-1", Started: true, Ready: true, Counted: true, Work: &Work{},
	}}
}

func (b *workerBuilder) busy(jobs int) *workerBuilder        { b.w.Work.InFlight = jobs; return b }
func (b *workerBuilder) idle(d time.Duration) *workerBuilder { b.w.Work.Idle = d; return b }
func (b *workerBuilder) age(d time.Duration) *workerBuilder  { b.w.Age = d; return b }
func (b *workerBuilder) old() *workerBuilder                 { b.w.Revision = oldest; return b }
func (b *workerBuilder) unready() *workerBuilder             { b.w.Ready = false; return b }
func (b *workerBuilder) unreachable() *workerBuilder         { b.w.Work = nil; return b }
func (b *workerBuilder) terminating() *workerBuilder {
	b.w.Terminating, b.w.Ready = true, false
	return b
}
func (b *workerBuilder) terminal() *workerBuilder {
	b.w.Terminal, b.w.Ready, b.w.Work = true, false, nil
	return b
}
func (b *workerBuilder) askedFor() *workerBuilder { b.w.AskedFor = true; return b }
func (b *workerBuilder) cordoned() *workerBuilder { b.w.Work.Cordoned = true; return b }
func (b *workerBuilder) marked(d time.Duration) *workerBuilder {
	b.w.Draining, b.w.Counted, b.w.DrainingFor = true, false, d
	return b
}
func (b *workerBuilder) drained() *workerBuilder {
	b.w.Work.Draining, b.w.Work.Drained = true, true
	return b
}
func (b *workerBuilder) draining(jobs int) *workerBuilder {
	b.w.Work.Draining, b.w.Work.InFlight = true, jobs
	return b
}
func (b *workerBuilder) pending() *workerBuilder {
	b.w.Started, b.w.Ready, b.w.Work = false, false, nil
	return b
}

func snapshotOf(desired int, workers ...*workerBuilder) Snapshot {
	s := Snapshot{
		Desired: desired, MaxSurge: 1, MaxUnavailable: 1, Revision: newest, RuntimeRevision: "rt-1", MayCreate: true, DrainTimeout: time.Minute,
	}
	for _, b := range workers {
		s.Workers = append(s.Workers, b.w)
	}
	return s
}

// steps is a plan in short.
func steps(p Plan) []string {
	var list []string
	for _, s := range p.Steps {
		list = append(list, string(s.Verb)+" "+s.Worker.Name)
	}
	return list
}

func TestPlan(t *testing.T) {
	cases := map[string]struct {
		snapshot   Snapshot
		change     func(*Snapshot)
		wantCreate int
		wantSteps  []string
	}{
		"at rest":             {snapshot: snapshotOf(2, make1("a"), make1("b"))},
		"empty":               {snapshot: snapshotOf(3), wantCreate: 3},
		"not allowed to make": {snapshot: snapshotOf(3), change: func(s *Snapshot) { s.MayCreate = false }},
		"one failed":          {snapshot: snapshotOf(2, make1("a"), make1("b").terminal()), wantCreate: 1, wantSteps: []string{"Remove b"}},
		"one being deleted by someone": {
			snapshot: snapshotOf(2, make1("a"), make1("b").terminating()), wantCreate: 1, wantSteps: []string{"Uncount b"},
		},
		"idle goes before busy":    {snapshot: snapshotOf(1, make1("a").busy(3), make1("b")), wantSteps: []string{"Release b"}},
		"busy drains":              {snapshot: snapshotOf(1, make1("a").busy(3), make1("b").busy(1)), wantSteps: []string{"Drain b"}},
		"no answer is busy":        {snapshot: snapshotOf(1, make1("a").unreachable(), make1("b").busy(9)), wantSteps: []string{"Drain b"}},
		"never started just goes":  {snapshot: snapshotOf(1, make1("a"), make1("b").pending()), wantSteps: []string{"Delete b"}},
		"two of three":             {snapshot: snapshotOf(1, make1("a").busy(1), make1("b"), make1("c").busy(2)), wantSteps: []string{"Release b", "Drain a"}},
		"drained is deleted":       {snapshot: snapshotOf(1, make1("a"), make1("b").marked(1).drained()), wantSteps: []string{"Delete b"}},
		"cordoned idle is deleted": {snapshot: snapshotOf(1, make1("a"), make1("b").marked(1).cordoned()), wantSteps: []string{"Delete b"}},
		"draining is waited for":   {snapshot: snapshotOf(1, make1("a"), make1("b").marked(1).draining(2))},
		"an unheard drain is said again": {
			snapshot: snapshotOf(1, make1("a"), make1("b").marked(1).busy(2)), wantSteps: []string{"Drain b"},
		},
		"a lost drainer is waited for": {snapshot: snapshotOf(1, make1("a"), make1("b").marked(59*time.Second).unreachable())},
		"and then no longer":           {snapshot: snapshotOf(1, make1("a"), make1("b").marked(time.Minute).unreachable()), wantSteps: []string{"Expire b"}},
		"a raised target takes back":   {snapshot: snapshotOf(2, make1("a"), make1("b").marked(1).draining(2)), wantSteps: []string{"Undrain b"}},
		"and makes the rest":           {snapshot: snapshotOf(3, make1("a"), make1("b").marked(1).draining(2)), wantCreate: 1, wantSteps: []string{"Undrain b"}},
		"an old one is not taken back": {snapshot: snapshotOf(2, make1("a"), make1("b").old().marked(1).draining(2)), wantCreate: 1},
		"draining never blocks the choice of another": {
			snapshot: snapshotOf(1, make1("a"), make1("b"), make1("c").marked(1).draining(1)), wantSteps: []string{"Release a"},
		},
		"a forgotten cordon is lifted": {snapshot: snapshotOf(1, make1("a").cordoned()), wantSteps: []string{"Undrain a"}},
		"deleting": {
			snapshot: snapshotOf(2, make1("a").busy(1), make1("b"), make1("c").pending()), change: func(s *Snapshot) { s.Deleting = true },
			wantSteps: []string{"Delete c", "Release b", "Drain a"},
		},
		"rollout surges first":          {snapshot: snapshotOf(3, make1("a").old(), make1("b").old(), make1("c").old()), wantCreate: 1, wantSteps: []string{"Release a"}},
		"rollout waits for the new one": {snapshot: snapshotOf(3, make1("a").old(), make1("b").old(), make1("c").unready(), make1("d").pending()), wantSteps: nil},
		"rollout goes on": {
			snapshot: snapshotOf(3, make1("a").old().busy(1), make1("b").old(), make1("c"), make1("d")), wantSteps: []string{"Release b", "Drain a"},
		},
		"rollout takes broken old ones at once": {
			snapshot: snapshotOf(3, make1("a").old(), make1("b").old(), make1("c").old().pending()), wantCreate: 1, wantSteps: []string{"Delete c"},
		},
		"paused holds the rollout": {
			snapshot: snapshotOf(3, make1("a").old(), make1("b").old()), change: func(s *Snapshot) { s.Paused = true }, wantCreate: 1,
		},
		"another runtime is no reason": {snapshot: snapshotOf(1, make1("a")), change: func(s *Snapshot) { s.RuntimeRevision = "rt-2" }},
		"except where it is": {
			snapshot: snapshotOf(1, make1("a")), change: func(s *Snapshot) { s.RuntimeRevision, s.RollRuntime = "rt-2", true }, wantCreate: 1, wantSteps: []string{"Release a"},
		},
		"to zero in a rollout": {snapshot: snapshotOf(0, make1("a").old(), make1("b")), wantSteps: []string{"Release a", "Release b"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := tc.snapshot
			if tc.change != nil {
				tc.change(&s)
			}
			got := MakePlan(s)
			if got.Create != tc.wantCreate {
				t.Errorf("creates %d, want %d", got.Create, tc.wantCreate)
			}
			if diff := cmp.Diff(tc.wantSteps, steps(got)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

// TestVictimOrder: who leaves first.
// A rollout to a revision whose every job fails is held: the older workers go on.
func TestARolloutToAPausedRevisionIsHeld(t *testing.T) {
	s := snapshotOf(3, make1("a").old(), make1("b").old(), make1("c").old(), make1("d"))
	if got := MakePlan(s); len(got.Steps) == 0 {
		t.Fatal("the rollout does not go on by itself")
	}
	s.Failing = "every job fails"
	if got := MakePlan(s); got.Create != 0 || len(got.Steps) != 0 {
		t.Errorf("plan %d %v", got.Create, steps(got))
	}
	s = snapshotOf(3, make1("a").old(), make1("b").old(), make1("d"))
	s.Failing = "every job fails"
	if got := MakePlan(s); got.Create != 0 || len(got.Steps) != 0 {
		t.Errorf("plan with a newer worker among three: %d %v", got.Create, steps(got))
	}
	s = snapshotOf(3, make1("a").old(), make1("d"))
	s.Failing = "every job fails"
	if got := MakePlan(s); got.Create != 1 {
		t.Errorf("a lost worker is not replaced: %d", got.Create)
	}
}

func TestVictimOrder(t *testing.T) {
	want := []*workerBuilder{
		make1("never-started").pending(),
		make1("unready-and-idle").unready(),
		make1("old-revision").old().busy(7),
		make1("asked-for").askedFor().busy(8),
		make1("idle-longest").idle(time.Hour),
		make1("idle-shorter").idle(time.Minute),
		make1("one-job").busy(1),
		make1("two-jobs-and-newest").busy(2).age(time.Minute),
		make1("two-jobs").busy(2),
		make1("no-answer").unreachable().age(time.Second),
	}
	s := snapshotOf(0, want...)
	names := func(workers []Worker) []string {
		var list []string
		for _, w := range workers {
			list = append(list, w.Name)
		}
		return list
	}
	shuffled := slices.Clone(s.Workers)
	slices.Reverse(shuffled)
	if diff := cmp.Diff(names(s.Workers), names(s.victims(shuffled))); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestAskAbout(t *testing.T) {
	names := func(s Snapshot) []string {
		var list []string
		for _, w := range askAbout(s) {
			list = append(list, w.Name)
		}
		return list
	}
	if got := names(snapshotOf(2, make1("a"), make1("b"))); got != nil {
		t.Errorf("at rest it asks %v", got)
	}
	if diff := cmp.Diff([]string{"b"}, names(snapshotOf(1, make1("a"), make1("b").marked(1)))); diff != "" {
		t.Errorf("while one drains (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "c"}, names(snapshotOf(1, make1("a"), make1("b").pending(), make1("c")))); diff != "" {
		t.Errorf("with one too many (-want +got):\n%s", diff)
	}
}
