package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/workpulling/workpulling/runtime/simulation"
)

// chunk is how many seeds one line of a record stands for, at most. A run that is broken off loses no more than that.
const chunk = 5000

const recordHead = `# Seeds of the simulator

Every line is a range of seeds that broke no invariant, with the machines as they were at its commit. ` + "`make sweep SEEDS=n`" + ` goes on
after the last of them.

| first | last | commit | seeds a second | steps |
|---|---|---|---|---|
`

// sweep runs seeds after those that the file records, and records them chunk by chunk.
func sweep(path, commit string, options simulation.Options, a arguments) int {
	first, err := nextSeed(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	for end := first + a.seeds; first < end; {
		part := a
		part.start, part.seeds = first, min(chunk, end-first)
		began := time.Now()
		total, failed := many(options, part)
		if failed != nil {
			return report(*failed, options, a)
		}
		took := time.Since(began).Seconds()
		line := fmt.Sprintf("| %d | %d | %s | %.0f | %d |\n", first, first+part.seeds-1, commit, float64(total.Runs)/took, total.Steps)
		if err := appendLine(path, line); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		fmt.Print(line)
		first += part.seeds
	}
	fmt.Printf("%d seeds are recorded in %s\n", first-1, path)
	return 0
}

// nextSeed is the first seed after those of the file, 1 if there is none.
func nextSeed(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return 0, fmt.Errorf("reading the record: %w", err)
	}
	next := uint64(1)
	for line := range strings.Lines(string(text)) {
		var first, last uint64
		if n, _ := fmt.Sscanf(line, "| %d | %d |", &first, &last); n == 2 {
			next = max(next, last+1)
		}
	}
	return next, nil
}

func appendLine(path, line string) error {
	if _, err := os.Stat(path); os.IsNotExist(err) {
		line = recordHead + line
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the record: %w", err)
	}
	if _, err := file.WriteString(line); err != nil {
		_ = file.Close()
		return fmt.Errorf("writing the record: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("closing the record: %w", err)
	}
	return nil
}
