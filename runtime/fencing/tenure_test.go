package fencing_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// shelf is one Lease at an API server that compares versions, and counts what is written.
type shelf struct {
	record  fencing.LeaseRecord
	version int
	writes  int
	down    bool
	// lost answers are written, and the writer does not hear of it.
	loseAnswers bool
}

var errDown = errors.New("no answer")

func (s *shelf) read() (fencing.LeaseRecord, error) {
	switch {
	case s.down:
		return fencing.LeaseRecord{}, errDown
	case s.record.Version == "":
		return fencing.LeaseRecord{}, apierrors.NewNotFound(leases.GroupResource(), "workpulling-uid")
	}
	return s.record, nil
}

func (s *shelf) create(holder string) (fencing.LeaseRecord, error) {
	switch {
	case s.down:
		return fencing.LeaseRecord{}, errDown
	case s.record.Version != "":
		return fencing.LeaseRecord{}, apierrors.NewAlreadyExists(leases.GroupResource(), "workpulling-uid")
	}
	return s.write(fencing.LeaseRecord{UID: fmt.Sprintf("lease-%d", s.version), Holder: holder, Transitions: 1})
}

func (s *shelf) hold(holder string, seen fencing.LeaseRecord) (fencing.LeaseRecord, error) {
	switch {
	case s.down:
		return fencing.LeaseRecord{}, errDown
	case s.record.Version == "":
		return fencing.LeaseRecord{}, apierrors.NewNotFound(leases.GroupResource(), "workpulling-uid")
	case seen.Version != s.record.Version:
		return fencing.LeaseRecord{}, apierrors.NewConflict(leases.GroupResource(), "workpulling-uid", errors.New("another version"))
	}
	next := s.record
	if next.Holder != holder {
		next.Holder, next.Transitions = holder, seen.Transitions+1
	}
	return s.write(next)
}

func (s *shelf) write(next fencing.LeaseRecord) (fencing.LeaseRecord, error) {
	s.version++
	s.writes++
	next.Version = fmt.Sprint(s.version)
	s.record = next
	if s.loseAnswers {
		return fencing.LeaseRecord{}, errDown
	}
	return next, nil
}

// tenant is one incarnation with its Tenure.
type tenant struct {
	*fencing.Tenure
	shelf  *shelf
	holder string
}

func newTenant(s *shelf, boot string, interval time.Duration, random func() float64) *tenant {
	who := protocol.Incarnation{PodUID: "uid", BootNonce: boot}
	return &tenant{fencing.NewTenure(who, interval, random), s, fencing.HolderOf(who)}
}

// step does what is due, and returns it.
func (p *tenant) step(now fencing.Now) fencing.TenureStep {
	step, _ := p.Next(now)
	switch step {
	case fencing.TenureRead:
		record, err := p.shelf.read()
		p.Read(now, record, err)
	case fencing.TenureCreate:
		record, err := p.shelf.create(p.holder)
		p.Wrote(now, record, err)
	case fencing.TenureHold:
		record, err := p.shelf.hold(p.holder, p.Seen())
		p.Wrote(now, record, err)
	default:
	}
	return step
}

// settle steps until nothing is due at now.
func (p *tenant) settle(now fencing.Now) {
	for range 20 {
		if step := p.step(now); step == fencing.TenureRest || step == fencing.TenureEnd {
			return
		}
	}
	panic("a Tenure does not come to rest")
}

func half() float64 { return 0.5 }

const interval = 20 * time.Second

func TestTenure(t *testing.T) {
	later := func(n int) fencing.Now { return fencing.Now(n) * interval }
	type outcome struct {
		Held        bool
		Over        string
		Holder      string
		Transitions int32
	}
	for name, c := range map[string]struct {
		run  func(s *shelf, p *tenant)
		want outcome
	}{
		"the first process makes the Lease": {
			func(_ *shelf, p *tenant) { p.settle(0) },
			outcome{true, "", "uid/b", 1},
		},
		"the next one takes it over": {
			func(s *shelf, p *tenant) {
				newTenant(s, "a", interval, half).settle(0)
				p.settle(0)
			},
			outcome{true, "", "uid/b", 2},
		},
		"a renewal counts no incarnation": {
			func(_ *shelf, p *tenant) {
				p.settle(0)
				p.settle(later(1))
				p.settle(later(3))
			},
			outcome{true, "", "uid/b", 1},
		},
		"a newer process ends this one": {
			func(s *shelf, p *tenant) {
				p.settle(0)
				newTenant(s, "c", interval, half).settle(0)
				p.settle(later(2))
			},
			outcome{false, "another process", "uid/c", 2},
		},
		"the deletion of the Lease ends this process, which does not make it anew": {
			func(s *shelf, p *tenant) {
				p.settle(0)
				s.record = fencing.LeaseRecord{}
				p.settle(later(2))
			},
			outcome{false, "was deleted", "", 0},
		},
		"an API server that is silent from the start is asked until it answers": {
			func(s *shelf, p *tenant) {
				s.down = true
				p.settle(0)
				p.settle(later(1))
				s.down = false
				p.settle(later(3))
			},
			outcome{true, "", "uid/b", 1},
		},
		"a silent API server ends nothing": {
			func(s *shelf, p *tenant) {
				p.settle(0)
				s.down = true
				for n := range 50 {
					p.settle(later(n))
				}
			},
			outcome{true, "", "uid/b", 1},
		},
		"the answer to the creation is lost": {
			func(s *shelf, p *tenant) {
				s.loseAnswers = true
				p.settle(0)
				s.loseAnswers = false
				p.settle(later(1))
			},
			outcome{true, "", "uid/b", 1},
		},
		"the answer to the acquisition is lost": {
			func(s *shelf, p *tenant) {
				newTenant(s, "a", interval, half).settle(0)
				s.loseAnswers = true
				p.settle(0)
				s.loseAnswers = false
				p.settle(later(1))
			},
			outcome{true, "", "uid/b", 2},
		},
		"somebody else writes the Lease and does not take it": {
			func(s *shelf, p *tenant) {
				p.settle(0)
				s.version++
				s.record.Version = fmt.Sprint(s.version)
				p.settle(later(2))
			},
			outcome{true, "", "uid/b", 1},
		},
		"a stranger writes itself into the Lease": {
			func(s *shelf, p *tenant) {
				p.settle(0)
				s.version++
				s.record = fencing.LeaseRecord{UID: s.record.UID, Version: fmt.Sprint(s.version), Holder: "other/x", Transitions: 9}
				p.settle(later(2))
			},
			outcome{true, "", "uid/b", 10},
		},
		"a backup brings the process before this one back": {
			func(s *shelf, p *tenant) {
				newTenant(s, "a", interval, half).settle(0)
				backup := s.record
				p.settle(0)
				s.version++
				backup.Version = fmt.Sprint(s.version)
				s.record = backup
				p.settle(later(2))
			},
			outcome{true, "", "uid/b", 2},
		},
		"a doubt makes it look at once": {
			func(s *shelf, p *tenant) {
				p.settle(0)
				newTenant(s, "c", interval, half).settle(0)
				p.Poke(time.Second)
				p.settle(time.Second)
			},
			outcome{false, "another process", "uid/c", 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shelf{}
			p := newTenant(s, "b", interval, half)
			c.run(s, p)
			got := outcome{p.Held(), p.Over(), s.record.Holder, s.record.Transitions}
			if c.want.Over != "" && strings.Contains(got.Over, c.want.Over) {
				got.Over = c.want.Over
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Two processes of one pod that acquire the Lease at the same time, their steps in any order: one holds it in the end, and the other knows
// that it is over (B-087).
func TestOneOfTwoProcessesHoldsTheLease(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test
	for round := range 5000 {
		s := &shelf{}
		if random.IntN(2) == 0 {
			newTenant(s, "before", interval, random.Float64).settle(0)
		}
		both := []*tenant{newTenant(s, "a", interval, random.Float64), newTenant(s, "b", interval, random.Float64)}
		now := fencing.Now(0)
		for range 40 {
			s.down = random.IntN(10) == 0
			s.loseAnswers = random.IntN(10) == 0
			both[random.IntN(2)].step(now)
			now += time.Duration(random.IntN(5)) * time.Second
		}
		s.down, s.loseAnswers = false, false
		for range 4 {
			now += 2 * interval
			both[0].settle(now)
			both[1].settle(now)
		}
		holders := 0
		for _, p := range both {
			if p.Held() {
				holders++
				if p.Over() != "" || s.record.Holder != p.holder {
					t.Fatalf("round %d: %s holds and is over (%q), the Lease says %s", round, p.holder, p.Over(), s.record.Holder)
				}
			} else if p.Over() == "" {
				t.Fatalf("round %d: %s neither holds the Lease nor knows that it is over", round, p.holder)
			}
		}
		if holders != 1 {
			t.Fatalf("round %d: %d processes hold the Lease", round, holders)
		}
	}
}

// A whole pool writes at most ten times a second, from the moment on that all of it has started, also after an outage of the API server
// (B-268).
func TestAPoolWritesAtMostTenTimesASecond(t *testing.T) {
	const budget, window = 10, 10 * time.Second
	for _, workers := range []int{1, 50, 128, 200, 256, 1000} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test
			every := runtimeconfig.LeaseInterval(workers)
			pool := make([]*tenant, workers)
			for i := range pool {
				pool[i] = newTenant(&shelf{}, "a", every, random.Float64)
				pool[i].settle(0)
			}
			began := writesOf(pool)
			if began != workers {
				t.Errorf("%d writes at the start of %d workers", began, workers)
			}
			outage := [2]fencing.Now{10 * every, 13 * every}
			most, before := 0, began
			end := 30 * every
			for now := window; now <= end; now += window {
				for at := now - window; at < now; at += 100 * time.Millisecond {
					for _, p := range pool {
						p.shelf.down = at >= outage[0] && at < outage[1]
						p.step(at)
					}
				}
				written := writesOf(pool)
				most, before = max(most, written-before), written
			}
			perSecond := float64(writesOf(pool)-began) / end.Seconds()
			t.Logf("%d workers, renewed every %s: %.1f writes a second, %.1f in the worst 10 s", workers, every, perSecond, float64(most)/window.Seconds())
			if float64(most) > budget*window.Seconds() {
				t.Errorf("%d writes in %s", most, window)
			}
			for i, p := range pool {
				if !p.Held() {
					t.Fatalf("worker %d does not hold its Lease: %s", i, p.Over())
				}
			}
		})
	}
}

func writesOf(pool []*tenant) (writes int) {
	for _, p := range pool {
		writes += p.shelf.writes
	}
	return writes
}
