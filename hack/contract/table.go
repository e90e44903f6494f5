package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed ids.txt
var idList string

// row is one line of the table.
type row struct {
	line      int
	id        string
	behaviour string
	shownBy   string
	remark    string
	tests     []reference
}

// reference names a test: a package and its tests by a pattern.
type reference struct {
	dir  string
	name string
}

func (r reference) String() string { return r.dir + " " + r.name }

// status is what a row says of its id.
type status string

const (
	covered status = "covered"
	decided status = "decided otherwise"
	open    status = "open"
)

func (r row) status() status {
	switch {
	case strings.TrimSpace(r.shownBy) == "open":
		return open
	case strings.HasPrefix(r.remark, "Decided:"):
		return decided
	default:
		return covered
	}
}

var (
	rowPattern  = regexp.MustCompile(`^\| *([GABI]-[0-9X]+a?) *\|(.*)\|$`)
	codePattern = regexp.MustCompile("`([^`]+)`")
	linkPattern = regexp.MustCompile(`\]\(([^)#]+)`)
)

// readTable reads the rows of a page.
func readTable(path string) ([]row, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []row
	for n, line := range strings.Split(string(raw), "\n") {
		match := rowPattern.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		cells := strings.Split(match[2], "|")
		if len(cells) != 3 {
			return nil, fmt.Errorf("%s:%d: a row has four cells, this one has %d", path, n+1, len(cells)+1)
		}
		r := row{line: n + 1, id: match[1], behaviour: strings.TrimSpace(cells[0]), shownBy: strings.TrimSpace(cells[1]), remark: strings.TrimSpace(cells[2])}
		for _, span := range codePattern.FindAllStringSubmatch(r.shownBy, -1) {
			dirs, name, ok := strings.Cut(span[1], " ")
			if !ok {
				return nil, fmt.Errorf("%s:%d: %q names no test of a package", path, n+1, span[1])
			}
			for _, dir := range expand(dirs) {
				r.tests = append(r.tests, reference{dir: dir, name: name})
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// expand turns a{b,c} into ab and ac.
func expand(text string) []string {
	before, rest, ok := strings.Cut(text, "{")
	if !ok {
		return []string{text}
	}
	middle, after, _ := strings.Cut(rest, "}")
	var all []string
	for one := range strings.SplitSeq(middle, ",") {
		all = append(all, before+one+after)
	}
	return all
}

// checkRows demands that every id has one row, that a row has a reason or a test, and that a decision links to a file.
func checkRows(rows []row, page string) (problems []string) {
	ids := strings.Fields(idList)
	seen := map[string]int{}
	for _, r := range rows {
		seen[r.id]++
		complain := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("%s:%d: %s: ", page, r.line, r.id)+fmt.Sprintf(format, args...))
		}
		if !slices.Contains(ids, r.id) {
			complain("no such id")
		}
		if r.behaviour == "" {
			complain("the row does not say what the behaviour is")
		}
		if r.status() == covered && len(r.tests) == 0 {
			complain("neither a test nor a decision")
		}
		if r.status() == decided {
			if links := linkPattern.FindAllStringSubmatch(r.remark, -1); len(links) == 0 {
				complain("the decision links to nothing")
			}
		}
		for _, link := range linkPattern.FindAllStringSubmatch(r.remark, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), link[1])); err != nil {
				complain("%s is not there", link[1])
			}
		}
	}
	for _, id := range ids {
		if seen[id] != 1 {
			problems = append(problems, fmt.Sprintf("%s: %s has %d rows, want one", page, id, seen[id]))
		}
	}
	return problems
}
