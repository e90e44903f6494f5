package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/workpulling/workpulling/runtime/queue"
)

// openFile opens the tree's file, or creates it, each with a new journal where there is none. The caller holds the directory's lock.
func openFile(path, flow string, makeJournal func() (journalShape, error)) (*bolt.DB, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.Size() == 0: // create never leaves one behind
		return nil, fmt.Errorf("%w: damaged file: it is empty", queue.ErrConflict)
	case errors.Is(err, os.ErrNotExist):
		if err := create(path, flow, makeJournal); err != nil {
			return nil, fmt.Errorf("creating the file: %w", err)
		}
	case err != nil:
		return nil, err
	}
	format, err := inspect(path, flow)
	if err != nil {
		return nil, err
	}
	if format == Format {
		return openBolt(path, bolt.Options{})
	}
	shape, err := makeJournal()
	if err != nil {
		return nil, fmt.Errorf("creating the journal: %w", err)
	}
	db, err := openBolt(path, bolt.Options{})
	if err != nil {
		return nil, err
	}
	if err := db.Update(func(tx *bolt.Tx) error { return upgrade(tx, shape) }); err != nil {
		return nil, errors.Join(fmt.Errorf("making the data those of format %d: %w", Format, err), db.Close())
	}
	return db, nil
}

// create writes an empty queue under another name first, so that a crash leaves either no file or a whole one. The journal is there
// before.
func create(path, flow string, makeJournal func() (journalShape, error)) error {
	fresh := path + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	shape, err := makeJournal()
	if err != nil {
		return err
	}
	db, err := openBolt(fresh, bolt.Options{})
	if err != nil {
		return err
	}
	if err := errors.Join(db.Update(func(tx *bolt.Tx) error { return initialise(tx, flow, shape) }), db.Close()); err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// inspect decides, without write access, whether the file may be opened, and returns its format.
func inspect(path, flow string) (format uint64, err error) {
	db, err := openBolt(path, bolt.Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	return format, errors.Join(guarded(func() error {
		return db.View(func(tx *bolt.Tx) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			if info.Size() < tx.Size() {
				return fmt.Errorf("%w: the file has %d bytes, but accounts for %d: it was cut off", queue.ErrConflict, info.Size(), tx.Size())
			}
			if format, err = identify(tx, flow); err != nil {
				return err
			}
			if err := walkBranches(tx, path); err != nil {
				return err
			}
			return walk(tx)
		})
	}), db.Close())
}

// walk visits every page of the tree. The engine does so as well while it opens a file for writing, but in a goroutine of its
// own, where a damaged page would end the process; here it is an error. The second visit finds the pages in memory.
func walk(tx *bolt.Tx) error {
	var names order
	if err := tx.ForEach(func(name []byte, _ *bolt.Bucket) error { return names.next("of buckets", name) }); err != nil {
		return err
	}
	for _, name := range append([][]byte{bucketWorkers}, buckets...) {
		bucket := tx.Bucket(name)
		if bucket == nil {
			continue // the bucket that came later; identify has found all others
		}
		var keys order
		if err := bucket.ForEach(func(key, value []byte) error {
			if value == nil {
				return fmt.Errorf("%w: damaged file: bucket %s holds a bucket", queue.ErrConflict, name)
			}
			return keys.next(string(name), key)
		}); err != nil {
			return err
		}
	}
	return nil
}

// order is the last key of a walk.
type order struct{ last []byte }

// next takes the key that follows. It reads all of it: a damaged length leads out of the file, where the engine must not be the first to look.
func (o *order) next(bucket string, key []byte) error {
	if len(key) > bolt.MaxKeySize {
		return fmt.Errorf("%w: damaged file: the bucket %s has a key of %d bytes", queue.ErrConflict, bucket, len(key))
	}
	if bytes.Compare(o.last, key) >= 0 {
		return fmt.Errorf("%w: damaged file: the bucket %s is out of order at %x", queue.ErrConflict, bucket, key)
	}
	o.last = append(o.last[:0], key...)
	return nil
}

// openBolt opens the file with this package's settings. The list of free pages is rebuilt at each opening instead of being
// written with each commit: after a large backlog was drained that list makes every commit slow. If that scan finds damage that
// walk could not see (a wrong key between two pages), the engine panics here and leaves its scanning goroutine behind, once for
// a file that is refused.
func openBolt(path string, options bolt.Options) (db *bolt.DB, err error) {
	options.Timeout = time.Second // the directory's lock is held, so nobody else should have the file
	options.NoFreelistSync = true
	options.FreelistType = bolt.FreelistMapType
	var file *os.File
	options.OpenFile = func(name string, flag int, mode os.FileMode) (*os.File, error) {
		file, err = os.OpenFile(name, flag, mode)
		return file, err
	}
	err = guarded(func() error {
		db, err = bolt.Open(path, 0o660, &options)
		return err
	})
	if err != nil {
		_ = file.Close() // the engine does not when it panics; otherwise this is the second time, and harmless
		return nil, explain(err)
	}
	return db, nil
}

// explain tells the engine's own verdicts on a file from errors of the system.
func explain(err error) error {
	var system syscall.Errno
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return ErrLocked
	case errors.As(err, &system), errors.Is(err, queue.ErrConflict):
		return err
	}
	return fmt.Errorf("%w: damaged file: %w", queue.ErrConflict, err)
}

// guarded runs code that reads the memory-mapped file. The engine answers a damaged page with a panic, and a page that the disk
// cannot deliver is a fault; both are a conflict here, not the end of the process.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: damaged file: %v", queue.ErrConflict, r)
		}
	}()
	return f()
}
