// Package filelock lets one process at a time do what must not be done twice at once.
//
// Invariant: the lock ends with its holder, however that dies; a file that is left behind locks nothing.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/workpulling/workpulling/hack/cluster/internal/progress"
)

// Acquire locks the file and makes it if need be. While another process holds it, it says so and waits for it or the
// context's end. What names the thing that is locked.
func Acquire(ctx context.Context, path, what string, say *progress.Printer) (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("locking %s: %w", what, err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", what, err)
	}
	waiting := func() string { return "waiting for another process that works on " + what }
	err = try(f)
	if errors.Is(err, unix.EWOULDBLOCK) {
		say.Printf("%s", waiting())
		err = say.While(waiting, func() error { return retry(ctx, f) })
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", what, err)
	}
	return func() { f.Close() }, nil
}

func try(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

func retry(ctx context.Context, f *os.File) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
		if err := try(f); !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
	}
}
