package main

import (
	"slices"
	"testing"

	"github.com/workpulling/workpulling/test/bench/internal/report"
)

// A target that names a row which nobody measures would be silently left out of the table.
func TestEveryTargetIsMeasured(t *testing.T) {
	all := rows(systems())
	for _, target := range targets() {
		for _, key := range []string{target.Ours, target.Reference} {
			if !slices.ContainsFunc(all, func(r report.Row) bool { return r.Key() == key }) {
				t.Errorf("%s: no row is %s", target.Work, key)
			}
		}
	}
}

func TestNamesAreUnique(t *testing.T) {
	names, keys := map[string]bool{}, map[string]bool{}
	for _, s := range systems() {
		if names[s.Name()] {
			t.Errorf("two systems are called %s", s.Name())
		}
		names[s.Name()] = true
	}
	for _, r := range rows(systems()) {
		if keys[r.Key()] || !names[r.System] {
			t.Errorf("row %s is there twice, or of no system", r.Key())
		}
		keys[r.Key()] = true
	}
}

func TestFlags(t *testing.T) {
	for _, bad := range [][]string{{"-runs", "0"}, {"-seconds", "0"}, {"-o", "xml"}, {"rest"}, {"-nonsense"}, {"-rate", "0"}} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
	for text, want := range map[string][]int{"": nil, "1": {1}, "1000,100000": {1000, 100_000}} {
		if sizes, err := (options{backlogs: text}).sizes(); err != nil || !slices.Equal(sizes, want) {
			t.Errorf("%q is taken for backlogs of %v: %v", text, sizes, err)
		}
	}
	for _, bad := range []string{"0", "x", "1,", "1000000000000"} {
		if sizes, err := (options{backlogs: bad}).sizes(); err == nil {
			t.Errorf("%q is taken for backlogs of %v", bad, sizes)
		}
	}
	if o, err := parse([]string{"-only", "direct", "-runs", "1"}); err != nil || o.only != "direct" || o.runs != 1 || o.seconds != 3 {
		t.Errorf("parsed as %+v: %v", o, err)
	}
}
