package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/workpulling/workpulling/hack/cluster/internal/filelock"
	"github.com/workpulling/workpulling/hack/cluster/internal/progress"
	"github.com/workpulling/workpulling/hack/cluster/internal/state"
)

// DefaultName is that of the cluster which one gets without asking.
const DefaultName = "workpulling"

var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$`)

// Directory holds the files of one cluster: $XDG_STATE_HOME (or ~/.local/state) /workpulling/clusters/<name>.
//
//	state.json             what is on the machine
//	kubeconfig             of the administrator
//	logs/<member>/         one file per component, and pods/ of a node
//	<member>/              configuration, keys and data
//	volumes/               one directory per PersistentVolume, seen by all nodes
type Directory struct{ path string }

// DirectoryOf gives the directory of the named cluster, which need not exist.
func DirectoryOf(name string) (Directory, error) {
	if !validName.MatchString(name) {
		return Directory{}, fmt.Errorf("cluster name %q: want at most 32 lower-case letters, digits and inner dashes", name)
	}
	home := os.Getenv("XDG_STATE_HOME")
	if home == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return Directory{}, fmt.Errorf("finding the state directory: %w", err)
		}
		home = filepath.Join(user, ".local", "state")
	}
	path, err := filepath.Abs(filepath.Join(home, "workpulling", "clusters", name))
	return Directory{path: path}, err
}

// Kubeconfig is the path of the administrator's kubeconfig.
func (d Directory) Kubeconfig() string { return filepath.Join(d.path, "kubeconfig") }

// Logs is the directory of all logs.
func (d Directory) Logs() string { return filepath.Join(d.path, "logs") }

// MemberLogs is the directory of a member's logs.
func (d Directory) MemberLogs(member string) string { return filepath.Join(d.Logs(), member) }

func (d Directory) volumes() string { return filepath.Join(d.path, "volumes") }

// member is a directory of a member's files.
func (d Directory) member(member string, parts ...string) string {
	return filepath.Join(append([]string{d.path, member}, parts...)...)
}

// orders is the file of a member's orders.
func (d Directory) orders(member string) string { return d.member(member, "orders.json") }

// make creates a directory and its parents.
func (d Directory) make(paths ...string) error {
	for _, path := range paths {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return fmt.Errorf("making a directory of the cluster: %w", err)
		}
	}
	return nil
}

// removeData removes everything but state and logs.
func (d Directory) removeData() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return fmt.Errorf("removing the cluster's files: %w", err)
	}
	for _, e := range entries {
		if e.Name() == "logs" || e.Name() == "state.json" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(d.path, e.Name())); err != nil {
			return fmt.Errorf("removing the cluster's files: %w", err)
		}
	}
	return nil
}

// siblings are the states of the other clusters of this user.
func (d Directory) siblings() ([]*state.State, error) {
	dirs, err := filepath.Glob(filepath.Join(filepath.Dir(d.path), "*"))
	if err != nil {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	var out []*state.State
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() || dir == d.path {
			continue
		}
		s, err := state.Load(dir)
		if err != nil {
			return nil, err
		}
		if s != nil {
			out = append(out, s)
		}
	}
	return out, nil
}

func (d Directory) lock(ctx context.Context, say *progress.Printer) (func(), error) {
	return filelock.Acquire(ctx, d.path+".lock", "cluster "+filepath.Base(d.path), say)
}

// lockNetworks keeps two clusters from choosing the same network.
func (d Directory) lockNetworks(ctx context.Context, say *progress.Printer) (func(), error) {
	return filelock.Acquire(ctx, filepath.Join(filepath.Dir(d.path), "networks.lock"), "the networks of clusters", say)
}
