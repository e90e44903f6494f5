package chaos

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func deal(seed uint64, n int) (out []Fault) {
	plan := NewPlan(seed)
	for range n {
		out = append(out, plan.Next())
	}
	return out
}

func TestAPlanFollowsFromItsSeed(t *testing.T) {
	one := deal(7, 300)
	if diff := cmp.Diff(one, deal(7, 300)); diff != "" {
		t.Errorf("the same seed, another plan:\n%s", diff)
	}
	if cmp.Equal(one, deal(8, 300)) {
		t.Error("another seed, the same plan")
	}
}

func TestADeckHasEveryKindOnce(t *testing.T) {
	const decks = 20
	counts := map[Kind]int{}
	for i, f := range deal(7, decks*len(traits)) {
		counts[f.Kind]++
		if i%len(traits) == len(traits)-1 {
			for _, tr := range traits {
				if counts[tr.kind] != (i+1)/len(traits) {
					t.Fatalf("after %d faults %d are %q", i+1, counts[tr.kind], tr.kind)
				}
			}
		}
	}
}

// What comes together is what is promised together: a process that is killed while a part of the control plane is away, and nothing else.
func TestOnlyProcessesAreKilledBesideAnOutageOfTheControlPlane(t *testing.T) {
	besides := map[Kind]int{}
	for _, f := range deal(7, 3000) {
		tr := traitOf(f.Kind)
		if (f.For > 0) != tr.lasts || f.Calm <= 0 {
			t.Errorf("%+v", f)
		}
		if f.Beside == nil {
			continue
		}
		besides[f.Beside.Kind]++
		if !tr.control || f.Beside.Beside != nil || f.Beside.For != 0 {
			t.Errorf("%s", f)
		}
	}
	if len(besides) != 3 || besides[KillApp] == 0 || besides[KillSidecar] == 0 || besides[KillProducer] == 0 {
		t.Errorf("beside outages: %v", besides)
	}
}
