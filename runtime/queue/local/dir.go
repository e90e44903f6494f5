package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"
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

// lockDir takes the lock in the name of holder, which whoever is kept out is told of.
func lockDir(ctx context.Context, path, holder string, wait time.Duration) (*dirLock, error) {
	if wait == 0 {
		wait = DefaultLockWait
	}
	ctx, cancel := context.WithTimeout(ctx, max(wait, 0))
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
			l := &dirLock{file}
			l.sign(holder)
			return l, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return nil, errors.Join(fmt.Errorf("locking: %w", err), file.Close())
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return nil, errors.Join(lockedBy(file), file.Close())
		}
	}
}

func (l *dirLock) release() error { return l.file.Close() }

// mostHolder bounds what is read of who holds the lock.
const mostHolder = 256

// sign says in the lock's file who holds it. That is for people alone: where it cannot be written, as on a full volume, the lock holds all
// the same, and nobody is named rather than the one before.
func (l *dirLock) sign(holder string) {
	if l.file.Truncate(0) == nil {
		_, _ = l.file.WriteAt([]byte(holder), 0)
	}
}

// lockedBy is ErrLocked with the name of the process that holds the lock, where that has left a readable one.
func lockedBy(file *os.File) error {
	raw := make([]byte, mostHolder)
	n, _ := file.ReadAt(raw, 0)
	holder := string(raw[:n])
	if holder == "" || !utf8.ValidString(holder) || strings.ContainsFunc(holder, unicode.IsControl) {
		return ErrLocked
	}
	return fmt.Errorf("%w: %s", ErrLocked, holder)
}

// thisProcess is the name of a process that was given none.
func thisProcess() string {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Sprintf("process %d", os.Getpid())
	}
	return fmt.Sprintf("process %d on host %s", os.Getpid(), host)
}
