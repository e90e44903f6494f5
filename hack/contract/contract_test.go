package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const repository = "../.."

// Every id has its row, and every test that a row names is there. Whether the tests pass is for `make contract`.
func TestPage(t *testing.T) {
	page := filepath.Join(repository, "docs", "contract.md")
	rows, err := readTable(page)
	if err != nil {
		t.Fatal(err)
	}
	problems := checkRows(rows, page)
	here, elsewhere, missing := sort(rows, &sources{root: repository, read: map[string]source{}})
	for _, problem := range append(problems, missing...) {
		t.Error(problem)
	}
	if len(here) < 300 || elsewhere < 10 {
		t.Errorf("%d tests here and %d elsewhere: the page is not read as a whole", len(here), elsewhere)
	}
}

// page writes a table of the given rows, and one good row for every other id.
func page(t *testing.T, rows ...string) string {
	t.Helper()
	text := strings.Join(rows, "\n") + "\n"
	for id := range strings.FieldsSeq(idList) {
		if !strings.Contains(text, "| "+id+" |") {
			text += fmt.Sprintf("| %s | good | `hack/contract TestPage` | |\n", id)
		}
	}
	dir := filepath.Join(t.TempDir(), "docs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "contract.md")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		row  string
		want string // empty: nothing is wrong
	}{
		"good":                        {"| G-001 | says something | `hack/contract TestPage` | |", ""},
		"a decision":                  {"| G-001 | says something | — | Decided: for a reason. [here](contract.md) |", ""},
		"a spec of another suite":     {"| G-001 | says something | `test/e2e The main job/runs every job once*` (e2e) | |", ""},
		"a test of another module":    {"| G-001 | says something | `test/helm TestSchema` (own module) | |", ""},
		"any subtest of a test":       {"| G-001 | says something | `runtime/delivery TestB143_Late*` | |", ""},
		"one test of two packages":    {"| G-001 | says something | `runtime/queue/{memory,local} TestContract` | |", ""},
		"twice":                       {"| G-001 | a | `hack/contract TestPage` | |\n| G-001 | b | `hack/contract TestPage` | |", "G-001 has 2 rows"},
		"unknown id":                  {"| G-999 | a | `hack/contract TestPage` | |", "no such id"},
		"no behaviour":                {"| G-001 | | `hack/contract TestPage` | |", "does not say what"},
		"no test":                     {"| G-001 | a | — | |", "neither a test nor a decision"},
		"a decision without a reason": {"| G-001 | a | — | Decided: so. |", "links to nothing"},
		"a link to nothing":           {"| G-001 | a | — | Decided: so. [here](nowhere.md) |", "nowhere.md is not there"},
		"a test that is not there":    {"| G-001 | a | `hack/contract TestNothing` | |", "has no TestNothing"},
		"no such directory":           {"| G-001 | a | `hack/nothing TestPage` | |", "has no TestPage"},
		"a spec that is not there":    {"| G-001 | a | `test/e2e The main job/does nothing` (e2e) | |", "has no spec"},
		"a suite that is not named":   {"| G-001 | a | `test/e2e The main job/runs every job once*` | |", "is run elsewhere: (e2e)"},
	} {
		t.Run(name, func(t *testing.T) {
			path := page(t, tc.row)
			rows, err := readTable(path)
			if err != nil {
				t.Fatal(err)
			}
			problems := checkRows(rows, path)
			_, _, missing := sort(rows, &sources{root: repository, read: map[string]source{}})
			said := strings.Join(append(problems, missing...), "\n")
			if tc.want == "" && said != "" || !strings.Contains(said, tc.want) {
				t.Errorf("said %q, want %q", said, tc.want)
			}
		})
	}
}

func TestRowsAreCounted(t *testing.T) {
	rows, err := readTable(page(t, "| G-001 | a | open | |", "| G-002 | a | — | Decided: [x](contract.md) |"))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[status]int{}
	for _, r := range rows {
		counts[r.status()]++
	}
	if counts[open] != 1 || counts[decided] != 1 || counts[covered] != len(strings.Fields(idList))-2 {
		t.Errorf("%v", counts)
	}
	if _, err := readTable(page(t, "| G-001 | a | `x` |")); err == nil {
		t.Error("a row of three cells is taken")
	}
}

// Only what has run and passed shows anything.
func TestVerdict(t *testing.T) {
	r := results{"pkg": {
		"TestA": "pass", "TestA/b_(B-001)": "pass", "TestA/c_(B-002)": "skip",
		"TestB": "pass", "TestB/x": "pass", "TestB/x/y": "pass", "TestB/x/y/z": "skip", "TestB/x2": "pass",
		"TestC": "pass", "TestC/x": "pass", "TestCC": "pass", "TestCC/x": "skip",
		"TestD": "fail",
	}}
	for name, wrong := range map[string]string{
		"TestA": "pkg TestA/c_(B-002): skip", "TestA/b (B-001)": "", "TestA/*(B-001)*": "", "TestA/*": "pkg TestA/c_(B-002): skip",
		"TestA/c*": "pkg TestA/c_(B-002): skip", "TestA/*(B-003)*": "pkg TestA/*(B-003)*: no such test was run",
		"TestB": "pkg TestB/x/y/z: skip", "TestB/x": "pkg TestB/x/y/z: skip", "TestB/*/y": "pkg TestB/x/y/z: skip", "TestB/x2": "",
		"TestC": "", "TestC*": "pkg TestCC/x: skip",
		"TestD": "pkg TestD: fail", "TestE": "pkg TestE: no such test was run",
	} {
		if got := r.verdict(reference{"pkg", name}); got != wrong {
			t.Errorf("%s: %q, want %q", name, got, wrong)
		}
	}
}
