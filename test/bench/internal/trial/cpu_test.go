package trial

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseStat(t *testing.T) {
	rest := " S 42 7 7 0 -1 4194560 1 2 3 4 150 50 7 3 20 0 1 0 99"
	for name, c := range map[string]struct {
		raw  string
		want stat
		bad  bool
	}{
		"usual":          {raw: "43 (bench)" + rest, want: stat{43, 42, 2100 * time.Millisecond}},
		"odd name":       {raw: "43 (a) S (b 1 2)" + rest, want: stat{43, 42, 2100 * time.Millisecond}},
		"too short":      {raw: "43 (bench) S 42", bad: true},
		"nothing":        {raw: "", bad: true},
		"no number":      {raw: "x (bench)" + rest, bad: true},
		"no number used": {raw: strings.Replace("43 (bench)"+rest, "150", "x", 1), bad: true},
	} {
		got, err := parseStat([]byte(c.raw))
		if (err != nil) != c.bad {
			t.Errorf("%s: error %v", name, err)
		}
		if err == nil {
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(stat{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

func TestSumIsOfAllDescendantsAndNobodyElse(t *testing.T) {
	children := map[int][]stat{1: {{2, 1, 10}, {5, 1, 100}}, 2: {{3, 2, 1}, {4, 2, 2}}, 9: {{10, 9, 1000}}}
	if got := sumBelow(children, 1); got != 113 {
		t.Errorf("the sum is %d, want 113", got)
	}
}
