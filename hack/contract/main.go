package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	root := flag.String("root", ".", "directory of the repository")
	dry := flag.Bool("dry", false, "check that tests exist, and run none")
	flag.Parse()
	if err := run(context.Background(), *root, *dry, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "contract:", err)
		os.Exit(1)
	}
}

// run checks the page of a repository.
func run(ctx context.Context, root string, dry bool, out io.Writer) error {
	page := filepath.Join(root, "docs", "contract.md")
	rows, err := readTable(page)
	if err != nil {
		return err
	}
	problems := checkRows(rows, page)
	tests := &sources{root: root, read: map[string]source{}}
	here, elsewhere, missing := sort(rows, tests)
	problems = append(problems, missing...)
	if !dry {
		failures, err := execute(ctx, root, rows, here, tests, out)
		if err != nil {
			return err
		}
		problems = append(problems, failures...)
	}
	counts := map[status]int{}
	for _, r := range rows {
		counts[r.status()]++
		if r.status() == open {
			problems = append(problems, fmt.Sprintf("%s:%d: %s is open: %s", page, r.line, r.id, r.behaviour))
		}
	}
	fmt.Fprintf(out, "contract: %d ids: %d %s, %d %s, %d %s; %d tests here, %d in other suites\n",
		len(rows), counts[covered], covered, counts[decided], decided, counts[open], open, len(here), elsewhere)
	if len(problems) > 0 {
		return errors.New(strings.Join(append([]string{fmt.Sprintf("%d problems", len(problems))}, problems...), "\n"))
	}
	return nil
}

// sort finds the tests that run from here, counts the others, and names those that are not there.
func sort(rows []row, s *sources) (here map[reference]bool, elsewhere int, problems []string) {
	here = map[reference]bool{}
	other := map[reference]bool{}
	for _, r := range rows {
		for _, t := range r.tests {
			where, err := s.locate(t)
			switch {
			case err != nil:
				problems = append(problems, fmt.Sprintf("%s: %v", r.id, err))
			case where == "":
				here[t] = true
			default:
				other[t] = true
				if !strings.Contains(r.shownBy, "("+where+")") {
					problems = append(problems, fmt.Sprintf("%s: say that %s is run elsewhere: (%s)", r.id, t, where))
				}
			}
		}
	}
	return here, len(other), problems
}

// execute runs what is named and returns what did not pass.
func execute(ctx context.Context, root string, rows []row, here map[reference]bool, tests *sources, out io.Writer) (problems []string, err error) {
	functions := map[string][]string{}
	for t := range here {
		for _, function := range tests.read[t.dir].matching(t.name) {
			if !slices.Contains(functions[t.dir], function) {
				functions[t.dir] = append(functions[t.dir], function)
			}
		}
	}
	ends, err := runTests(ctx, root, functions, func(text string) { fmt.Fprint(out, text) })
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		for _, t := range r.tests {
			if !here[t] {
				continue
			}
			if wrong := ends.verdict(t); wrong != "" {
				problems = append(problems, r.id+": "+wrong)
			}
		}
	}
	return problems, nil
}
