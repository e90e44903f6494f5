package trial

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Mode is how load is made.
type Mode string

const (
	// Flood submits as fast as the system takes jobs: throughput.
	Flood Mode = "flood"
	// Paced submits at a rate, whatever comes of it: latency from submission to handler.
	Paced Mode = "paced"
	// Single submits one job at a time and waits for its acceptance.
	Single Mode = "single"
)

// Backlog is how many jobs may be accepted and not handled while a system is flooded, the same for every system that is compared.
const Backlog = 10_000

// Stage is where a trial happens. All processes of it get the same one.
type Stage struct {
	System string
	// Dir is an empty directory of the trial, on the disk that durable systems write to.
	Dir string
	// Ledger is the file of the account that all processes share.
	Ledger string
	Mode   Mode
	// PayloadBytes is the size of a job, MinPayload at least.
	PayloadBytes int
	// Workers is their number, Window the most unsettled jobs of each, WorkerProcesses in how many processes they run (1).
	Workers, Window, WorkerProcesses int
	// Rate is the jobs a second of Paced.
	Rate int
	// Backlog is how many jobs may be accepted and not handled while a system is flooded; 0 means Backlog.
	Backlog int
	// Fill lets the workers come only when the backlog is full.
	Fill bool
	// Deduplication is how long the systems of this project remember a settled job; 0 means their default of ten minutes.
	Deduplication time.Duration
	// Slices is how many parts of the trial have latencies of their own, Slice how long each is; 0 for none.
	Slices int
	Slice  time.Duration
	// Profiles is a directory for CPU profiles, one of each process; empty for none.
	Profiles string
}

// backlog is the bound of a flood.
func (s *Stage) backlog() uint64 {
	if s.Backlog > 0 {
		return uint64(s.Backlog)
	}
	return Backlog
}

// Path is a file in the directory of the trial.
func (s *Stage) Path(name string) string { return filepath.Join(s.Dir, name) }

// Tell leaves a value, such as an address, for processes that start later.
func (s *Stage) Tell(name, value string) error {
	if err := os.WriteFile(s.Path(name+".new"), []byte(value), 0o600); err != nil {
		return err
	}
	return os.Rename(s.Path(name+".new"), s.Path(name))
}

// Told is the value that an earlier process left.
func (s *Stage) Told(name string) (string, error) {
	deadline := time.Now().Add(10 * time.Second)
	for {
		raw, err := os.ReadFile(s.Path(name))
		if err == nil {
			return string(raw), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) {
			return "", fmt.Errorf("nobody told %s: %w", name, err)
		}
		<-time.After(5 * time.Millisecond)
	}
}
