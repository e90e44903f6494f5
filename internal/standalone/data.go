package standalone

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/workpulling/workpulling/internal/manifest"
)

// data is the directory of a run.
//
//	lock                       held by the run that uses the directory
//	flows/<namespace>/<flow>/  what a flow keeps from one run to the next
//	run/                       what belongs to the run that goes on: sockets, tokens, configurations; for its owner's eyes only
type data struct {
	dir  string
	lock *os.File
}

// openData makes the directory, takes its lock and clears what an earlier run has left in run/.
func openData(dir string) (*data, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	if err := ours(dir); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("another run uses the data directory %s: end it, or give this one another directory with --data", dir)
		}
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	d := &data{dir: dir, lock: lock}
	if err := errors.Join(os.RemoveAll(d.run()), os.Mkdir(d.run(), 0o700)); err != nil {
		d.close()
		return nil, fmt.Errorf("preparing the data directory: %w", err)
	}
	return d, nil
}

// ours refuses a directory that holds other things, for what is in run/ is removed.
func ours(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the data directory: %w", err)
	}
	locked := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "lock" })
	if len(entries) > 0 && !locked {
		return fmt.Errorf("the directory %s holds other things than the data of a run: name one of its own with --data", dir)
	}
	return nil
}

// close removes what belongs to the run and gives the lock back.
func (d *data) close() {
	_ = os.RemoveAll(d.run()) // the next run does the same
	d.lock.Close()
}

func (d *data) run(path ...string) string {
	return filepath.Join(append([]string{d.dir, "run"}, path...)...)
}

// runDir makes a directory below run/.
func (d *data) runDir(path ...string) (string, error) {
	dir := d.run(path...)
	return dir, os.MkdirAll(dir, 0o700)
}

// flowPath is the directory that a flow keeps.
func (d *data) flowPath(flow manifest.Flow) string {
	return filepath.Join(d.dir, "flows", flow.Namespace, flow.Name)
}

// flowDir makes the directory that a flow keeps.
func (d *data) flowDir(flow manifest.Flow) (string, error) {
	dir := d.flowPath(flow)
	return dir, os.MkdirAll(dir, 0o700)
}

// uid is what stands for the UID of a flow: that of the manifest, or else one that is made up once and kept, so that the queue of a
// database is found again, and never that of another machine with a flow of the same name.
func (d *data) uid(flow manifest.Flow) (string, error) {
	if flow.UID != "" {
		return string(flow.UID), nil
	}
	dir, err := d.flowDir(flow)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "uid")
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the identity of flow %s: %w", flow.Name, err)
	}
	if uid := strings.TrimSpace(string(raw)); uid != "" {
		return uid, nil
	}
	uid := "standalone-" + strings.ToLower(rand.Text())
	if err := errors.Join(os.WriteFile(file+".new", []byte(uid+"\n"), 0o600), os.Rename(file+".new", file)); err != nil {
		return "", fmt.Errorf("keeping the identity of flow %s: %w", flow.Name, err)
	}
	return uid, nil
}
