package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
)

// What the command writes into a page lies between these lines; the rest of the page is left alone.
const (
	beginTable = "<!-- mutants: made by make mutants RECORD=1 -->\n"
	endTable   = "<!-- end of mutants -->\n"
)

// record keeps verdicts in a page, each as soon as it is known, so that a run that was broken off goes on where it ended: a mutant that
// the page says was found at the same commit is not tried again.
type record struct {
	path, commit  string
	before, after string // the page around the table

	mu   sync.Mutex
	rows []row
}

// row is one line of the table.
type row struct {
	number, title, verdict, by, seeds, commit string
}

const (
	rowFound    = "found"
	rowSurvived = "survived"
	rowBroken   = "broken"
)

// openRecord reads a page. One that does not exist becomes a table alone.
func openRecord(path, commit string) (*record, error) {
	r := &record{path: path, commit: commit}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record: %w", err)
	}
	before, rest, begins := strings.Cut(string(text), beginTable)
	table, after, ends := strings.Cut(rest, endTable)
	if !begins || !ends {
		return nil, fmt.Errorf("%s has no markers", path)
	}
	r.before, r.after = before, after
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) == 6 && patchNumber.MatchString(cells[0]) {
			r.rows = append(r.rows, row{cells[0], cells[1], cells[2], cells[3], cells[4], cells[5]})
		}
	}
	return r, nil
}

// keep drops the rows of mutants that there are no more.
func (r *record) keep(all []mutant) {
	r.rows = slices.DeleteFunc(r.rows, func(x row) bool {
		return !slices.ContainsFunc(all, func(m mutant) bool { return m.number == x.number })
	})
}

// found reports whether the mutant was found at this very commit. One that survived is tried again, so that the run fails again.
func (r *record) found(m mutant) bool {
	return slices.ContainsFunc(r.rows, func(x row) bool {
		return x.number == m.number && x.commit == r.commit && x.verdict == rowFound
	})
}

// note writes one verdict down.
func (r *record) note(m mutant, v verdict) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := row{number: m.number, title: m.title, verdict: v.name(), by: v.by, commit: r.commit}
	if len(m.tests) == 0 {
		x.seeds = fmt.Sprint(v.seeds)
	}
	r.rows = slices.DeleteFunc(r.rows, func(old row) bool { return old.number == m.number })
	r.rows = append(r.rows, x)
	slices.SortFunc(r.rows, func(a, b row) int { return cmp.Compare(a.number, b.number) })
	if err := os.WriteFile(r.path, []byte(r.before+beginTable+r.table()+endTable+r.after), 0o644); err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	return nil
}

// table is in two parts, because what a test of its own finds says nothing about the simulator.
func (r *record) table() string {
	bySimulator := slices.DeleteFunc(slices.Clone(r.rows), func(x row) bool { return x.seeds == "" })
	byTests := slices.DeleteFunc(slices.Clone(r.rows), func(x row) bool { return x.seeds != "" })
	var b strings.Builder
	fmt.Fprintf(&b, "\n## For the simulator: found %s planted\n\n", count(bySimulator))
	b.WriteString("| mutant | what it breaks | verdict | by | seeds | commit |\n|---|---|---|---|---:|---|\n")
	write(&b, bySimulator)
	fmt.Fprintf(&b, "\n## For the tests that they name: found %s planted\n\n", count(byTests))
	b.WriteString("| mutant | what it breaks | verdict | by | seeds | commit |\n|---|---|---|---|---:|---|\n")
	write(&b, byTests)
	b.WriteString("\n")
	return b.String()
}

func count(rows []row) string {
	found := 0
	for _, x := range rows {
		if x.verdict == rowFound {
			found++
		}
	}
	return fmt.Sprintf("%d of %d", found, len(rows))
}

func write(b *strings.Builder, rows []row) {
	for _, x := range rows {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", x.number, x.title, x.verdict, x.by, x.seeds, x.commit)
	}
}
