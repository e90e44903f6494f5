package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/workpulling/workpulling/hack/cluster/internal/address"
)

// Phase says how far "up" came.
type Phase string

const (
	Starting Phase = "Starting" // "up" is at work, or was killed
	Running  Phase = "Running"
)

// Member is the control plane or a node: a set of namespaces with a process that holds them.
type Member struct {
	Name    string  `json:"name"`
	Process Process `json:"process"`
}

// State is everything that a cluster has on this machine outside its directory.
type State struct {
	Name     string         `json:"name"`
	Phase    Phase          `json:"phase"`
	Version  string         `json:"version"` // of Kubernetes
	Plan     address.Plan   `json:"plan"`
	Nodes    int            `json:"nodes"`
	HostLink string         `json:"hostLink"` // network interface in the main namespace
	Cgroup   string         `json:"cgroup"`   // path in every cgroup hierarchy
	Sysctls  map[string]int `json:"sysctls"`  // values before "up" raised them
	Members  []Member       `json:"members"`  // the control plane first
}

// Member finds one by name.
func (s *State) Member(name string) (Member, error) {
	var names []string
	for _, m := range s.Members {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Member{}, fmt.Errorf("cluster %q has no %q; it has %v", s.Name, name, names)
}

// Alive reports whether all members live.
func (s *State) Alive() bool {
	for _, m := range s.Members {
		if !m.Process.Alive() {
			return false
		}
	}
	return len(s.Members) == s.Nodes+1
}

const file = "state.json"

// Load reads the state in the cluster's directory; nil without an error means that there is no such cluster.
func Load(dir string) (*State, error) {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the cluster's state: %w", err)
	}
	s := &State{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("reading the cluster's state in %s: %w", filepath.Join(dir, file), err)
	}
	return s, nil
}

// Save replaces the state in the cluster's directory.
func (s *State) Save(dir string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the cluster's state: %w", err)
	}
	beside := filepath.Join(dir, file+".new")
	if err := os.WriteFile(beside, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the cluster's state: %w", err)
	}
	if err := os.Rename(beside, filepath.Join(dir, file)); err != nil {
		return fmt.Errorf("writing the cluster's state: %w", err)
	}
	return nil
}

// Forget is the last step of taking a cluster away.
func Forget(dir string) error {
	if err := os.Remove(filepath.Join(dir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting the cluster's state: %w", err)
	}
	return nil
}
