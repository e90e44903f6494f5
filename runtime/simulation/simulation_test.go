package simulation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// seedsPerTest is what `go test` runs; `make sim` runs many more.
const seedsPerTest = 300

func TestSeeds(t *testing.T) {
	seeds := uint64(seedsPerTest)
	if testing.Short() {
		seeds /= 5
	}
	var total Counts
	for seed := range seeds {
		r := Run(seed+1, Options{})
		if r.Violation != nil {
			t.Fatalf("seed %d (%s): %v\nreplay: go run ./runtime/simulation/cmd/sim -seed %d", r.Seed, r.Profile, r.Violation, r.Seed)
		}
		total.Add(r.Counts)
	}
	t.Logf("%d steps, %d jobs stored, %d redelivered", total.Steps, total.Stored, total.Redelivered)
	if total.Confirmed == 0 || total.Redelivered == 0 || total.Reloads <= total.Runs {
		t.Errorf("the runs did too little to prove anything: %+v", total)
	}
}

// TestReplay runs each profile twice with one seed: every line of the two traces must be the same.
func TestReplay(t *testing.T) {
	for i, p := range Profiles {
		t.Run(p.Name, func(t *testing.T) {
			o := Options{Profile: &p, Trace: 1 << 20}
			a, b := Run(uint64(1000+i), o), Run(uint64(1000+i), o)
			if diff := cmp.Diff(a.Trace, b.Trace); diff != "" {
				t.Fatalf("two runs of one seed differ:\n%s", diff)
			}
			if a.Hash != b.Hash || len(a.Trace) < 100 {
				t.Errorf("hashes %x and %x of %d lines", a.Hash, b.Hash, len(a.Trace))
			}
			quiet := Run(uint64(1000+i), Options{Profile: &p})
			if quiet.Counts.Steps != a.Counts.Steps {
				t.Errorf("%d steps with a trace, %d without: looking changes the world", a.Counts.Steps, quiet.Counts.Steps)
			}
			if again := Run(uint64(1000+i), Options{Profile: &p}); again.Hash != quiet.Hash {
				t.Errorf("hashes %x and %x without a trace", quiet.Hash, again.Hash)
			}
		})
	}
}

func TestProfilesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Profiles {
		if seen[p.Name] || p.Name == "" {
			t.Errorf("profile name %q is taken or empty", p.Name)
		}
		seen[p.Name] = true
		if got, ok := ProfileNamed(p.Name); !ok || got.Name != p.Name {
			t.Errorf("profile %q is not found by its name", p.Name)
		}
	}
	if _, ok := ProfileNamed("no such world"); ok {
		t.Error("found a profile that does not exist")
	}
}

func TestEveryFaultHasAName(t *testing.T) {
	for f := range faults {
		if f.String() == "" {
			t.Errorf("fault %d has no name", f)
		}
	}
}
