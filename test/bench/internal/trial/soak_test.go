package trial

import (
	"strings"
	"testing"
	"time"
)

func TestSoakHasAWordForEachSlice(t *testing.T) {
	soak := fakeTrial(t, "none", Paced)
	soak.Stage.Slices, soak.Stage.Slice = 3, 100*time.Millisecond
	told := 0
	figures, err := soak.RunSoak(t.Context(), func(slice int, _ Slice) {
		if told++; slice != told {
			t.Errorf("told of slice %d after %d", slice, told-1)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(figures.Slices) != 3 || told != 3 || figures.Jobs == 0 || len(figures.Flatness) != len(figures.Slices[0].Memory) {
		t.Fatalf("told of %d slices: %+v", told, figures)
	}
	for i, s := range figures.Slices {
		if s.Jobs == 0 || s.P50 <= 0 || s.P99 < s.P50 || s.Memory[0].Own == 0 {
			t.Errorf("slice %d: %+v", i+1, s)
		}
	}
}

func TestSoakFailsAFlawedSystem(t *testing.T) {
	defer func(was time.Duration) { drainLimit = was }(drainLimit)
	drainLimit = 2 * time.Second
	for flaw, want := range map[string]string{"loses": "was lost", "repeats": "handled more than once"} {
		soak := fakeTrial(t, flaw, Paced)
		soak.Stage.Slices, soak.Stage.Slice = 3, 100*time.Millisecond
		if _, err := soak.RunSoak(t.Context(), func(int, Slice) {}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a system that %s: error %v, want %q", flaw, err, want)
		}
	}
}

func TestMemoryThatGrowsIsNotFlat(t *testing.T) {
	slices := func(sizes ...uint64) (all []Slice) {
		for _, n := range sizes {
			all = append(all, Slice{Memory: []Memory{{Process: "p", Own: n, Mapped: 50, Shared: 7}}})
		}
		return all
	}
	for name, c := range map[string]struct {
		slices []Slice
		want   string
	}{
		"flat":                          {slices: slices(1, 2, 3, 50, 50, 50, 52, 54, 60)},
		"shrinks":                       {slices: slices(1, 2, 3, 50, 50, 50, 5, 5, 5)},
		"grows":                         {slices: slices(1, 2, 3, 50, 50, 50, 61, 61, 61), want: "from 100 to 111"},
		"one of the last is an odd one": {slices: slices(1, 2, 3, 50, 50, 50, 50, 999, 50)},
	} {
		err := SoakFigures{Flatness: flatness(c.slices)}.Grown()
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The workers of a backlog's trial come when it is full, and not before.
func TestBacklogIsFilledFirst(t *testing.T) {
	backlog := fakeTrial(t, "none", Flood)
	backlog.Stage.Backlog = 500
	figures, err := backlog.RunBacklog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if figures.Fill.Jobs < 500 || figures.Steady.Jobs == 0 || figures.Jobs < figures.Fill.Jobs+figures.Steady.Jobs {
		t.Errorf("measured %+v", figures)
	}
}
