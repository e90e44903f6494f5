package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// makeDir creates a directory and its missing parents, each synced into its own parent.
func makeDir(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o770); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		return errors.Join(fmt.Errorf("syncing the directory: %w", err), d.Close())
	}
	return d.Close()
}

// dirLock is an exclusive lock that ends with its process.
type dirLock struct{ file *os.File }

const lockPoll = 20 * time.Millisecond

func lockDir(ctx context.Context, path string, wait time.Duration) (*dirLock, error) {
	if wait == 0 {
		wait = DefaultLockWait
	}
	ctx, cancel := context.WithTimeoutCause(ctx, max(wait, 0), ErrLocked)
	defer cancel()
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o660)
	if err != nil {
		return nil, err
	}
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return &dirLock{file}, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return nil, errors.Join(fmt.Errorf("locking: %w", err), file.Close())
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), file.Close())
		}
	}
}

func (l *dirLock) release() error { return l.file.Close() }
