package prober

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Journal appends lines to a file. A line that was written stays when the process is killed: the kernel has it.
type Journal struct {
	mu   sync.Mutex
	file *os.File
}

// OpenJournal goes on with a file, or begins it.
func OpenJournal(path string) (*Journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a journal: %w", err)
	}
	return &Journal{file: file}, nil
}

// Append writes what line makes of the time of its writing, so that the lines of one process are in the order of time.
func (j *Journal) Append(line func(at Moment) any) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	text, err := json.Marshal(line(Now()))
	if err != nil {
		return fmt.Errorf("encoding a line of %s: %w", j.file.Name(), err)
	}
	if _, err := j.file.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("writing a journal: %w", err)
	}
	return nil
}

// Close ends it.
func (j *Journal) Close() error { return j.file.Close() }

// readLines reads a journal. A write is whole or was never made, so a torn line is an error.
func readLines[Line any](from io.Reader, each func(Line)) error {
	lines := bufio.NewReader(from)
	for n := 1; ; n++ {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(text) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		var line Line
		if err := json.Unmarshal(text, &line); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		each(line)
	}
}

// ReadJournal reads every line of a file.
func ReadJournal[Line any](path string) (lines []Line, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading a journal: %w", err)
	}
	defer file.Close()
	if err := readLines(file, func(line Line) { lines = append(lines, line) }); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return lines, nil
}
