package main

import (
	"path/filepath"
	"testing"
)

// What asks for nothing to be tried has failed; it must not look as if something had passed.
func TestWhatRunsNothingFails(t *testing.T) {
	for name, tc := range map[string]struct {
		a    arguments
		want int
	}{
		"a few seeds":       {arguments{seeds: 2, start: 1}, 0},
		"one seed":          {arguments{seed: "1"}, 0},
		"no seeds":          {arguments{start: 1}, 2},
		"no seeds recorded": {arguments{record: filepath.Join(t.TempDir(), "seeds.md")}, 2},
		"no such profile":   {arguments{seeds: 1, profile: "nosuch"}, 2},
		"no number":         {arguments{seed: "one"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			tc.a.quiet, tc.a.parallel = true, 1
			if got := run(tc.a); got != tc.want {
				t.Errorf("exit %d, want %d", got, tc.want)
			}
		})
	}
}
