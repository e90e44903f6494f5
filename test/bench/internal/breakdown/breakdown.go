package breakdown

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Share is what one area has of all CPU, from 0 to 1.
type Share struct {
	Area string  `json:"area"`
	Of   float64 `json:"of"`
}

// Read adds up the CPU profiles of the processes of a trial, the largest share first. It fails where there is no sample.
func Read(files []string) ([]Share, error) {
	spent, total := map[string]int64{}, int64(0)
	for _, file := range files {
		p, err := parse(file)
		if err != nil {
			return nil, err
		}
		for _, sample := range p.Sample {
			cpu := sample.Value[len(sample.Value)-1]
			spent[areaOf(stack(sample))] += cpu
			total += cpu
		}
	}
	if total == 0 {
		return nil, fmt.Errorf("no sample in %s", strings.Join(files, ", "))
	}
	shares := make([]Share, 0, len(spent))
	for name, cpu := range spent {
		shares = append(shares, Share{name, float64(cpu) / float64(total)})
	}
	slices.SortFunc(shares, func(a, b Share) int { return cmp.Or(cmp.Compare(b.Of, a.Of), cmp.Compare(a.Area, b.Area)) })
	return shares, nil
}

func parse(path string) (*profile.Profile, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p, err := profile.Parse(file)
	if err != nil {
		return nil, fmt.Errorf("reading the profile %s: %w", path, err)
	}
	return p, nil
}

// stack is the functions of a sample, the innermost first, those that were inlined included.
func stack(sample *profile.Sample) (functions []string) {
	for _, location := range sample.Location {
		for _, line := range location.Line {
			if line.Function != nil {
				functions = append(functions, line.Function.Name)
			}
		}
	}
	return functions
}

// Text names the areas with at least a share of least, and adds up the rest.
func Text(shares []Share, least float64) string {
	var parts []string
	rest := 1.0
	for _, s := range shares {
		if s.Of < least || s.Area == other {
			continue
		}
		rest -= s.Of
		parts = append(parts, fmt.Sprintf("%s %.0f %%", s.Area, 100*s.Of))
	}
	if rest >= 0.005 {
		parts = append(parts, fmt.Sprintf("the rest %.0f %%", 100*rest))
	}
	return strings.Join(parts, ", ")
}
