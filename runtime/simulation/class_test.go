package simulation

import (
	"os"
	"strings"
	"testing"
)

func TestEveryFaultBelongsToAClass(t *testing.T) {
	classes := map[Fault]string{}
	for _, c := range Classes {
		if len(c.Faults) == 0 || c.Contract == "" {
			t.Errorf("%s is met by nothing", c.Name)
		}
		for _, f := range c.Faults {
			if other := classes[f]; other != "" {
				t.Errorf("%v belongs to %s and to %s", f, other, c.Name)
			}
			classes[f] = c.Name
		}
	}
	for f := range faults {
		if classes[f] == "" {
			t.Errorf("%v belongs to no class", f)
		}
	}
}

// The documentation shows the table of this package; `make docs` writes it.
func TestTheDocumentedTableIsThisOne(t *testing.T) {
	text, err := os.ReadFile("../../docs/design/evidence.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), ClassTable()) {
		t.Errorf("docs/design/evidence.md has another table than:\n%s", ClassTable())
	}
}
