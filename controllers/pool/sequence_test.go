package pool

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// world plays API server, kubelets and apps for the planner. Every reconcile is checked against the invariants of the package.
type world struct {
	t        *testing.T
	spec     Snapshot
	pods     []*Worker
	made     int
	log      strings.Builder
	rollouts bool
}

func newWorld(t *testing.T, desired int) *world {
	w := &world{t: t, spec: snapshotOf(desired)}
	w.spec.DrainTimeout = 10 * time.Minute
	return w
}

func (w *world) say(format string, args ...any) { fmt.Fprintf(&w.log, format+"\n", args...) }

func (w *world) snapshot() Snapshot {
	s := w.spec
	for _, p := range w.pods {
		s.Workers = append(s.Workers, *p)
	}
	return s
}

func (w *world) pod(name string) *Worker {
	for _, p := range w.pods {
		if p.Name == name {
			return p
		}
	}
	w.t.Fatalf("no pod %s", name)
	return nil
}

// reconcile makes a plan and carries it out.
func (w *world) reconcile() {
	s := w.snapshot()
	p := MakePlan(s)
	for _, step := range p.Steps {
		w.step(step)
	}
	for range p.Create {
		w.made++
		name := fmt.Sprintf("pod-%02d", w.made)
		w.say("  create %s (%s)", name, s.Revision)
		w.pods = append(w.pods, &Worker{Name: name, UID: name, Age: time.Duration(1000-w.made) * time.Second, Revision: s.Revision, RuntimeRevision: "rt-1", Counted: true})
	}
	w.check(s)
}

func (w *world) step(step Step) {
	p := w.pod(step.Worker.Name)
	w.say("  %s %s: %s", strings.ToLower(string(step.Verb)), p.Name, step.Why)
	switch step.Verb {
	case Remove, Delete, Replace:
		if step.Verb == Delete && p.Work != nil && p.Work.InFlight > 0 {
			w.t.Errorf("%s is deleted with %d jobs", p.Name, p.Work.InFlight)
		}
		p.Terminating, p.Ready, p.Counted = true, false, false
	case Expire:
		if p.DrainingFor < w.spec.DrainTimeout {
			w.t.Errorf("%s expires after %s", p.Name, p.DrainingFor)
		}
		p.Terminating, p.Ready = true, false
	case Release:
		if p.Work.InFlight > 0 {
			return
		}
		p.Work.Cordoned, p.Terminating, p.Ready, p.Counted = true, true, false, false
	case Drain:
		p.Draining, p.Counted, p.Ready = true, false, false
		if p.Work != nil {
			p.Work.Draining, p.Work.Drained = true, p.Work.InFlight == 0
		}
	case Undrain:
		p.Draining, p.Counted, p.Ready, p.DrainingFor = false, true, true, 0
		*p.Work = Work{InFlight: p.Work.InFlight}
	case Uncount:
		p.Counted = false
	case Relabel:
		p.Counted = true
	}
}

func (w *world) check(before Snapshot) {
	w.t.Helper()
	live := 0
	for _, p := range w.pods {
		if p.live() {
			live++
		}
		if p.leaving() && p.Counted {
			w.t.Errorf("%s drains and is still selected", p.Name)
		}
	}
	ceiling := w.spec.Desired
	if w.rollouts {
		ceiling += w.spec.MaxSurge
	}
	if grown := live > count(before.Workers, Worker.live); grown && live > ceiling {
		w.t.Errorf("%d live workers, at most %d may be made", live, ceiling)
	}
}

// kubelet lets one thing happen to a pod, and says whether anything was to do.
func (w *world) kubelet(p *Worker) bool {
	switch {
	case p.Terminating:
		w.say("  gone %s", p.Name)
		for i := range w.pods {
			if w.pods[i] == p {
				w.pods = append(w.pods[:i], w.pods[i+1:]...)
				break
			}
		}
	case !p.Started && !p.Terminal:
		p.Started, p.Ready, p.Work = true, true, &Work{}
	default:
		return false
	}
	return true
}

// finish lets the app of a pod finish its jobs.
func (w *world) finish(p *Worker) {
	if p.Work == nil {
		return
	}
	p.Work.InFlight = 0
	p.Work.Drained = p.Work.Draining
}

// settle runs until nothing changes.
func (w *world) settle() {
	for range 50 {
		before := fmt.Sprint(w.snapshot().Workers)
		w.reconcile()
		for _, p := range append([]*Worker(nil), w.pods...) {
			w.kubelet(p)
		}
		if before == fmt.Sprint(w.snapshot().Workers) {
			return
		}
	}
	w.t.Fatal("it does not settle")
}

func (w *world) act(title string, do func()) {
	w.say("%s", title)
	do()
	w.settle()
	t := w.snapshot().tally()
	w.say("  = %d live, %d ready, %d updated, %d leaving", t.live, t.ready, t.updated, t.leaving)
}

// TestSequences are stories, to be read in testdata.
func TestSequences(t *testing.T) {
	stories := map[string]func(*world){
		"scale": func(w *world) {
			w.act("make four", func() {})
			w.act("three are busy, two are wanted", func() {
				w.pod("pod-01").Work.InFlight, w.pod("pod-02").Work.InFlight, w.pod("pod-03").Work.InFlight = 1, 2, 3
				w.spec.Desired = 2
			})
			w.act("three are wanted again", func() { w.spec.Desired = 3 })
			w.act("none are wanted", func() { w.spec.Desired = 0 })
			w.act("two finish", func() { w.finish(w.pod("pod-01")); w.finish(w.pod("pod-02")) })
			w.act("the last one never does", func() { w.pod("pod-03").DrainingFor = w.spec.DrainTimeout })
		},
		"replace": func(w *world) {
			w.act("make three", func() {})
			w.act("one is evicted, one is deleted by a person", func() {
				w.pod("pod-01").Terminal, w.pod("pod-01").Ready = true, false
				w.pod("pod-02").Terminating, w.pod("pod-02").Ready = true, false
			})
		},
		"rollout": func(w *world) {
			w.rollouts = true
			w.act("make four", func() {})
			w.act("a new template, one worker is busy", func() {
				w.pod("pod-02").Work.InFlight = 1
				w.spec.Revision = "rev-3"
			})
			w.act("it finishes", func() { w.finish(w.pod("pod-02")) })
		},
	}
	desired := map[string]int{"scale": 4, "replace": 3, "rollout": 4}
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, desired[name])
			story(w)
			path := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(w.log.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), w.log.String()); diff != "" {
				t.Errorf("the story differs (-want +got); run with -update where that is meant:\n%s", diff)
			}
		})
	}
}

// TestRandomOrder lets everything happen in any order, and expects the same end.
func TestRandomOrder(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 7))
		w := newWorld(t, 1+random.IntN(6))
		w.rollouts = true
		w.spec.MaxSurge, w.spec.MaxUnavailable = random.IntN(3), random.IntN(3)
		if w.spec.MaxSurge == 0 && w.spec.MaxUnavailable == 0 {
			w.spec.MaxUnavailable = 1
		}
		for range 200 {
			w.event(random)
			if t.Failed() {
				t.Fatalf("seed %d:\n%s", seed, w.log.String())
			}
		}
		for range 20 {
			for _, p := range w.pods {
				w.finish(p)
				if p.leaving() && p.Work == nil {
					p.DrainingFor = w.spec.DrainTimeout
				}
			}
			w.settle()
		}
		end := w.snapshot().tally()
		if end.live != w.spec.Desired || end.ready != w.spec.Desired || end.outdated != 0 || end.leaving != 0 || len(w.pods) != w.spec.Desired {
			t.Fatalf("seed %d ends with %+v of %d:\n%s", seed, end, w.spec.Desired, w.log.String())
		}
	}
}

func (w *world) event(random *rand.Rand) {
	if len(w.pods) > 0 {
		p := w.pods[random.IntN(len(w.pods))]
		switch random.IntN(8) {
		case 0, 1:
			w.kubelet(p)
		case 2:
			if p.Work != nil && !p.Work.Draining && !p.Work.Cordoned && !p.Terminating {
				p.Work.InFlight++
			}
		case 3:
			w.finish(p)
		case 4:
			if !p.Terminating && random.IntN(4) == 0 {
				p.Terminal, p.Ready, p.Work = true, false, nil
			}
		}
	}
	switch random.IntN(12) {
	case 0:
		w.spec.Desired = random.IntN(7)
	case 1:
		w.spec.Revision = fmt.Sprintf("rev-%d", random.IntN(4))
	default:
		w.reconcile()
	}
}
