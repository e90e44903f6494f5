package prober

import (
	"fmt"
	"path/filepath"
	"strings"
)

// LedgerSuffix ends the name of a worker's ledger; before it comes the UID of the pod.
const LedgerSuffix = ".ndjson"

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

// write appends one entry.
func (j *Journal) write(e Entry) error {
	return j.Append(func(at Moment) any {
		e.At = at
		return e
	})
}

// ReadLedgers reads every ledger of a directory, by pod UID.
func ReadLedgers(dir string) (map[string][]Entry, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+LedgerSuffix))
	if err != nil {
		return nil, fmt.Errorf("listing the ledgers: %w", err)
	}
	out := map[string][]Entry{}
	for _, path := range paths {
		if out[strings.TrimSuffix(filepath.Base(path), LedgerSuffix)], err = ReadJournal[Entry](path); err != nil {
			return nil, err
		}
	}
	return out, nil
}
