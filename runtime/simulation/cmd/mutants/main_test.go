package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Who asks for a mutant gets it or is told that there is none: nothing planted is nothing found.
func TestChoose(t *testing.T) {
	all := []mutant{{number: "001"}, {number: "002"}, {number: "003"}, {number: "005"}}
	for name, tc := range map[string]struct {
		asked arguments
		want  string
		wrong string // part of the error
	}{
		"all":                       {arguments{}, "001 002 003 005", ""},
		"more than there are":       {arguments{n: 9}, "001 002 003 005", ""},
		"half of them, by the day":  {arguments{n: 2}, "002 005", ""},
		"by number":                 {arguments{only: "005,002"}, "002 005", ""},
		"a number that is not used": {arguments{only: "999"}, "", `no mutant "999"; they are 001 to 005`},
		"one of two is wrong":       {arguments{only: "002,00x"}, "", `no mutant "00x"`},
		"an empty number":           {arguments{only: "002,"}, "", `no mutant ""`},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, err := choose(slices.Clone(all), tc.asked, time.Unix(24*60*60, 0))
			if (err != nil) != (tc.wrong != "") || err != nil && !strings.Contains(err.Error(), tc.wrong) {
				t.Fatalf("%v, want %q", err, tc.wrong)
			}
			var numbers []string
			for _, m := range chosen {
				numbers = append(numbers, m.number)
			}
			if diff := cmp.Diff(tc.want, strings.Join(numbers, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNoMutantsAreAnError(t *testing.T) {
	if all, err := readMutants(t.TempDir()); err == nil {
		t.Errorf("%d mutants of an empty directory", len(all))
	}
}
