package member

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Status tells how a component does.
type Status struct {
	PID      int    `json:"pid"` // in the member's namespace; 0 while it does not run
	Restarts int    `json:"restarts"`
	Stopped  bool   `json:"stopped,omitempty"` // by order
	LastEnd  string `json:"lastEnd,omitempty"`
}

// Statuses are those of a member's components by name.
type Statuses map[string]Status

const statusFile = "components.json"

// LoadStatuses reads what a member published in its log directory; empty if it has not yet.
func LoadStatuses(logDir string) (Statuses, error) {
	text, err := os.ReadFile(filepath.Join(logDir, statusFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Statuses{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the status of components: %w", err)
	}
	var s Statuses
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("reading the status of components: %w", err)
	}
	return s, nil
}

func (s Statuses) save(logDir string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	path := filepath.Join(logDir, statusFile)
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
