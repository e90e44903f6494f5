package controlplane

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const tempPattern = "workpulling-control-plane-"

// tempDir is a directory that tells whether its owner lives: the owner holds a lock on a file in it.
type tempDir struct {
	path string
	lock *os.File
}

// newTempDir also removes the directories of owners that were killed.
func newTempDir() (*tempDir, error) {
	removeAbandoned()
	path, err := os.MkdirTemp("", tempPattern)
	if err != nil {
		return nil, fmt.Errorf("making a temporary directory: %w", err)
	}
	lock, err := lockFile(path)
	if err != nil {
		os.RemoveAll(path)
		return nil, fmt.Errorf("locking the temporary directory: %w", err)
	}
	return &tempDir{path: path, lock: lock}, nil
}

func (d *tempDir) remove() {
	os.RemoveAll(d.path)
	d.lock.Close()
}

func lockFile(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// removeAbandoned leaves alone a directory without a lock file: its owner may be about to make one.
func removeAbandoned() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), tempPattern+"*"))
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "lock")); err != nil {
			continue
		}
		if lock, err := lockFile(dir); err == nil {
			os.RemoveAll(dir)
			lock.Close()
		}
	}
}
