package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
)

func main() {
	dir := flag.String("dir", os.TempDir(), "a directory on the disk to measure")
	rows := flag.Int("rows", 100_000, "jobs that make the large backlog")
	only := flag.String("only", "", "measure one contestant alone (local, memory, pebble or postgres), for its memory")
	url := flag.String("postgres", "", "connection string of a PostgreSQL database to measure too, with its data on the same disk")
	flag.Parse()
	if err := run(*dir, *rows, *only, *url); err != nil {
		fmt.Fprintln(os.Stderr, "measuring:", err)
		os.Exit(1)
	}
}

func run(dir string, rows int, only, url string) error {
	contestants := []struct {
		name string
		open func(dir string) (contestant, error)
	}{{"local", openLocal}, {"memory", openMemory}, {"pebble", openPebble}}
	if url != "" {
		contestants = append(contestants, struct {
			name string
			open func(dir string) (contestant, error)
		}{"postgres", openPostgres(url)})
	}
	var names []string
	results := map[string][]figure{}
	for _, c := range contestants {
		if only != "" && only != c.name {
			continue
		}
		place, err := os.MkdirTemp(dir, "queue-bench-")
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "measuring %s\n", c.name)
		figures, err := measure(func() (contestant, error) { return c.open(filepath.Join(place, "data")) }, place, rows)
		if err := os.RemoveAll(place); err != nil {
			return err
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		names, results[c.name] = append(names, c.name), figures
	}
	return print(names, results)
}

// print writes a table in Markdown: one line a figure, one column a contestant, and the others' ratios to the first.
func print(names []string, results map[string][]figure) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	fmt.Fprint(w, "| figure\t| unit")
	for _, name := range names {
		fmt.Fprintf(w, "\t| %s", name)
	}
	for _, name := range names[1:] {
		fmt.Fprintf(w, "\t| %s/%s", name, names[0])
	}
	fmt.Fprintf(w, "\t|\n%s|\n", string(slices.Repeat([]byte("|---\t"), 1+2*len(names))))
	for i, first := range results[names[0]] {
		fmt.Fprintf(w, "| %s\t| %s", first.name, first.unit)
		for _, name := range names {
			fmt.Fprintf(w, "\t| %.4g", results[name][i].value)
		}
		for _, name := range names[1:] {
			if first.value == 0 {
				fmt.Fprint(w, "\t| -")
				continue
			}
			fmt.Fprintf(w, "\t| %.2f", results[name][i].value/first.value)
		}
		fmt.Fprint(w, "\t|\n")
	}
	return w.Flush()
}
