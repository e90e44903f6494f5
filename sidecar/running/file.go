package running

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// fileBytes is the size of a file, unless what is in progress takes half of it.
const fileBytes = 1 << 20

// ErrForeign says that the file was written by another version of the sidecar, in a format that this one does not read. A new pod has
// a new file.
var ErrForeign = errors.New("the running set was written by another version of the sidecar: replace the pod")

// File is the running set of one process, an endpoint.RunningSet. Its methods may be called from any goroutine.
type File struct {
	path string

	mu      sync.Mutex
	surface surface // nil where the last write failed: the file has to be written anew
	size    int     // of what is written, in bytes
	room    int     // that the file has
	scratch []byte
	runs    map[string]endpoint.LeftRun // by MessageID
}

// Open takes over the file at path, which need not exist, and returns what an earlier process left in it, by MessageID. The caller ends
// each once its handler is certain to be over. ErrForeign is the error for a file that this version cannot read.
func Open(path string) (*File, []endpoint.LeftRun, error) {
	f := &File{path: path, runs: map[string]endpoint.LeftRun{}}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, nil, fmt.Errorf("making the directory of the running set: %w", err)
	}
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("reading the running set: %w", err)
	}
	if foreign(raw) {
		return nil, nil, fmt.Errorf("reading %s: %w", path, ErrForeign)
	}
	f.replay(raw)
	if err := f.rewrite(); err != nil {
		return nil, nil, err
	}
	left := make([]endpoint.LeftRun, 0, len(f.runs))
	for _, id := range slices.Sorted(maps.Keys(f.runs)) {
		left = append(left, f.runs[id])
	}
	return f, left, nil
}

// Begin records a run. After an error its handler must not be invoked.
func (f *File) Begin(flow string, claim protocol.Claim) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	run := endpoint.LeftRun{Flow: flow, Claim: claim}
	record, err := appendBegun(f.scratch[:0], &run)
	f.scratch = record
	if err != nil {
		return err
	}
	f.runs[claim.MessageID] = run
	if err := f.add(record); err != nil {
		delete(f.runs, claim.MessageID)
		return err
	}
	return nil
}

// End records that a handler is over. What cannot be written is dropped with the next rewriting; until then a new process would believe
// that the handler still runs, which is safe.
func (f *File) End(messageID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, found := f.runs[messageID]; !found {
		return
	}
	delete(f.runs, messageID)
	record, err := appendEnded(f.scratch[:0], messageID)
	f.scratch = record
	if err == nil {
		_ = f.add(record)
	}
}

// Check writes the file anew if the next Begin would have to: the last write failed, or the file is full and could not be replaced.
func (f *File) Check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fits(maxRecordBytes) {
		return nil
	}
	return f.rewrite()
}

// maxRecordBytes is more than a record of a job takes.
const maxRecordBytes = 1024

// fits reports whether n more bytes can be added to the file as it is.
func (f *File) fits(n int) bool { return f.surface != nil && f.size+n <= f.room }

// Close closes the file, which stays.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.drop()
}

func (f *File) drop() error {
	if f.surface == nil {
		return nil
	}
	err := f.surface.Close()
	f.surface = nil
	return err
}

// add writes one record. f.runs holds it already, so that it is also there after a rewriting.
func (f *File) add(record []byte) error {
	if !f.fits(len(record)) {
		return f.rewrite()
	}
	if _, err := f.surface.WriteAt(record, int64(f.size)); err != nil {
		_ = f.drop() // what is half written is torn: nothing may follow it
		return fmt.Errorf("writing the running set: %w", err)
	}
	f.size += len(record)
	return nil
}

// rewrite puts a file with just the runs in progress in the place of the old one.
func (f *File) rewrite() error {
	whole := bytes.Clone(header)
	for _, id := range slices.Sorted(maps.Keys(f.runs)) {
		run := f.runs[id]
		grown, err := appendBegun(whole, &run)
		if err != nil {
			return err
		}
		whole = grown
	}
	room := max(fileBytes, 2*len(whole))
	file, err := os.OpenFile(f.path+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("writing the running set anew: %w", err)
	}
	if err = reserve(file, room); err == nil {
		_, err = file.WriteAt(whole, 0)
	}
	if err == nil {
		err = os.Rename(f.path+".new", f.path)
	}
	if err != nil {
		file.Close()
		return fmt.Errorf("writing the running set anew: %w", err)
	}
	_ = f.drop()
	f.surface, f.size, f.room = surfaceOf(file, room), len(whole), room
	return nil
}

// fill writes zeros, so that the volume gives the room.
func fill(file *os.File, room int) error {
	_, err := file.WriteAt(make([]byte, room), 0)
	return err
}

// replay applies the whole records of a file, up to the first that is not.
func (f *File) replay(raw []byte) {
	rest, found := bytes.CutPrefix(raw, header)
	for found {
		var body []byte
		body, rest, found = cut(rest)
		found = found && apply(f.runs, body)
	}
}
