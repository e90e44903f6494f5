package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
)

// ledger is the set of effects in memory and the append-only file that it is rebuilt from. Each line of the file is one
// execution as JSON: without an analysis it started, with one it finished.
type ledger struct {
	mu      sync.RWMutex
	effects map[string]*entry
	writes  chan write
	file    *os.File
}

type entry struct {
	Effect
	started, finished []string // ids of executions, to tell repeats
}

type write struct {
	line []byte
	done chan error
}

// openLedger reads the file and drops a last line that a crash cut off: nobody got an answer for it.
func openLedger(path string) (*ledger, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the ledger: %w", err)
	}
	l := &ledger{effects: map[string]*entry{}, writes: make(chan write, 1024), file: file}
	whole, err := l.replay(bufio.NewReader(file))
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if err := file.Truncate(whole); err != nil {
		return nil, errors.Join(fmt.Errorf("cutting a torn line off the ledger: %w", err), file.Close())
	}
	if _, err := file.Seek(whole, io.SeekStart); err != nil {
		return nil, errors.Join(fmt.Errorf("finding the end of the ledger: %w", err), file.Close())
	}
	go l.write()
	return l, nil
}

// replay returns the number of bytes up to the last whole line.
func (l *ledger) replay(lines *bufio.Reader) (whole int64, err error) {
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return whole, nil
		}
		if err != nil {
			return 0, fmt.Errorf("reading the ledger: %w", err)
		}
		var run Execution
		if err := json.Unmarshal(line, &run); err != nil {
			return 0, fmt.Errorf("the ledger is damaged at byte %d: %w", whole, err)
		}
		l.apply(run)
		whole += int64(len(line))
	}
}

// record makes an execution durable, then visible. It returns when the line is on disk.
func (l *ledger) record(run Execution) error {
	line, err := json.Marshal(run)
	if err != nil {
		return fmt.Errorf("encoding an execution: %w", err)
	}
	done := make(chan error, 1)
	l.writes <- write{append(line, '\n'), done}
	if err := <-done; err != nil {
		return err
	}
	l.apply(run)
	return nil
}

// write appends waiting lines together and syncs once for all of them. A failed write or sync ends the process: what is
// on disk is then unknown, and the next start reads it.
func (l *ledger) write() {
	for first := range l.writes {
		batch := []write{first}
		for more := true; more && len(batch) < 1024; {
			select {
			case next, open := <-l.writes:
				if more = open; open {
					batch = append(batch, next)
				}
			default:
				more = false
			}
		}
		var lines bytes.Buffer
		for _, w := range batch {
			lines.Write(w.line)
		}
		_, err := l.file.Write(lines.Bytes())
		if err == nil {
			err = l.file.Sync()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "writing the ledger:", err)
			os.Exit(1)
		}
		for _, w := range batch {
			w.done <- nil
		}
	}
}

func (l *ledger) apply(run Execution) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.effects[run.MessageID]
	if e == nil {
		e = &entry{Effect: Effect{MessageID: run.MessageID, EventID: run.EventID, Source: run.Source}}
		l.effects[run.MessageID] = e
	}
	if !slices.Contains(e.started, run.ID) {
		e.started = append(e.started, run.ID)
	}
	if run.Analysis != nil && !slices.Contains(e.finished, run.ID) {
		e.finished = append(e.finished, run.ID)
		if e.Analysis == nil {
			e.Worker, e.Analysis = run.Worker, run.Analysis
		}
	}
	e.Started, e.Finished = len(e.started), len(e.finished)
}

// list returns the effects of one source, or all for an empty source, in order of their message id.
func (l *ledger) list(source string) []Effect {
	l.mu.RLock()
	defer l.mu.RUnlock()
	found := make([]Effect, 0, len(l.effects))
	for _, e := range l.effects {
		if source == "" || e.Source == source {
			found = append(found, e.Effect)
		}
	}
	slices.SortFunc(found, func(a, b Effect) int { return strings.Compare(a.MessageID, b.MessageID) })
	return found
}

func (l *ledger) summary(source string) Summary {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var s Summary
	for _, e := range l.effects {
		if source != "" && e.Source != source {
			continue
		}
		s.Jobs++
		s.Started += e.Started
		s.Finished += e.Finished
		if e.Finished > 0 {
			s.Effects++
		}
	}
	return s
}
