package crash

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ledgerSuffix ends the name of a worker's ledger; before it comes the UID of the pod.
const ledgerSuffix = ".ndjson"

// Moment is a reading of the machine's monotonic clock, which all processes share.
type Moment time.Duration

// now reads the clock.
func now() Moment {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // there is no Linux without it
	}
	return Moment(t.Nano())
}

// Entry is one line of a worker's ledger: the start of a run of the app, or its end.
type Entry struct {
	At Moment `json:"at"`
	// Boot is one start of the app's process, Run one run in it.
	Boot string `json:"boot"`
	Run  uint64 `json:"run"`

	MessageID string `json:"id,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`
	// SHA256 is the hash of the payload that a start was given.
	SHA256 string `json:"sha256,omitempty"`

	// Status is what an end answered, 0 in a start.
	Status int `json:"status,omitempty"`
}

// ledger appends entries to a file. A line that was written stays when the process is killed: the kernel has it.
type ledger struct {
	mu   sync.Mutex
	file *os.File
}

func openLedger(path string) (*ledger, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the ledger: %w", err)
	}
	return &ledger{file: file}, nil
}

// write appends one entry with the time of its writing, so that the lines of one process are in the order of time.
func (l *ledger) write(e Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.At = now()
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding an entry: %w", err)
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing the ledger: %w", err)
	}
	return nil
}

// ReadLedgers reads every ledger of a directory, by pod UID.
func ReadLedgers(dir string) (map[string][]Entry, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+ledgerSuffix))
	if err != nil {
		return nil, fmt.Errorf("listing the ledgers: %w", err)
	}
	out := map[string][]Entry{}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading a ledger: %w", err)
		}
		entries, err := parseLedger(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		out[strings.TrimSuffix(filepath.Base(path), ledgerSuffix)] = entries
	}
	return out, nil
}

// parseLedger reads entries. A write is whole or was never made, so a torn line is an error.
func parseLedger(from io.Reader) ([]Entry, error) {
	var out []Entry
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", len(out)+1, err)
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(out)+1, err)
		}
		out = append(out, e)
	}
}
