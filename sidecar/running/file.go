package running

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// compactAt is the size in bytes at which the file is written anew, unless what is in progress takes half of that.
const compactAt = 1 << 20

// File is the running set of one process, an endpoint.RunningSet. Its methods may be called from any goroutine.
type File struct {
	path string

	mu   sync.Mutex
	file *os.File // nil where the last write failed: it has to be written anew
	size int64
	full int64                       // the size at which it is written anew
	runs map[string]endpoint.LeftRun // by MessageID
}

// Open takes over the file at path, which need not exist, and returns what an earlier process left in it, by MessageID. The caller ends
// each once its handler is certain to be over.
func Open(path string) (*File, []endpoint.LeftRun, error) {
	f := &File{path: path, runs: map[string]endpoint.LeftRun{}}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, nil, fmt.Errorf("making the directory of the running set: %w", err)
	}
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("reading the running set: %w", err)
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
	f.runs[claim.MessageID] = run
	if err := f.append(begun(run)); err != nil {
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
	_ = f.append(record{End: messageID})
}

// Check writes the file anew if the next Begin would have to: the last write failed, or the file has grown and could not be replaced.
func (f *File) Check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.stale() {
		return nil
	}
	return f.rewrite()
}

// stale reports whether nothing more can be added to the file as it is.
func (f *File) stale() bool { return f.file == nil || f.size >= f.full }

// Close closes the file, which stays.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

// append writes one record, in one write, so that only a kill in its middle tears it. f.runs holds it already.
func (f *File) append(r record) error {
	if f.stale() {
		return f.rewrite()
	}
	line, err := r.line()
	if err != nil {
		return err
	}
	n, err := f.file.Write(line)
	f.size += int64(n)
	if err != nil {
		f.file.Close() // what is half written is torn: nothing may follow it
		f.file = nil
		return fmt.Errorf("writing the running set: %w", err)
	}
	return nil
}

// rewrite puts a file with just the runs in progress in the place of the old one.
func (f *File) rewrite() error {
	var text []byte
	for _, id := range slices.Sorted(maps.Keys(f.runs)) {
		line, err := begun(f.runs[id]).line()
		if err != nil {
			return err
		}
		text = append(text, line...)
	}
	file, err := os.OpenFile(f.path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("writing the running set anew: %w", err)
	}
	if _, err = file.Write(text); err == nil {
		err = os.Rename(f.path+".new", f.path)
	}
	if err != nil {
		file.Close()
		return fmt.Errorf("writing the running set anew: %w", err)
	}
	if f.file != nil {
		f.file.Close()
	}
	f.file, f.size = file, int64(len(text))
	f.full = max(compactAt, 2*f.size)
	return nil
}

// record is one line: the beginning of a run, or the end of one.
type record struct {
	Flow     string `json:"flow,omitempty"`
	Begin    string `json:"begin,omitempty"` // MessageID
	StoreSeq int64  `json:"seq,omitempty"`
	Attempt  int    `json:"attempt,omitempty"`
	Ticket   string `json:"ticket,omitempty"`
	End      string `json:"end,omitempty"` // MessageID
}

func begun(run endpoint.LeftRun) record {
	r := record{Flow: run.Flow, Begin: run.Claim.MessageID, StoreSeq: run.Claim.StoreSeq, Attempt: run.Claim.Attempt}
	if t := run.Claim.Ticket; !t.IsZero() {
		r.Ticket = hex.EncodeToString(t[:])
	}
	return r
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (r record) line() ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding a run: %w", err)
	}
	return append(fmt.Appendf(nil, "%08x ", crc32.Checksum(body, castagnoli)), append(body, '\n')...), nil
}

// replay applies the whole lines of a file, up to the first that is not.
func (f *File) replay(raw []byte) {
	lines := bufio.NewReader(bytes.NewReader(raw))
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		r, ok := parse(line[:len(line)-1])
		if !ok {
			return
		}
		if r.End != "" {
			delete(f.runs, r.End)
			continue
		}
		f.runs[r.Begin] = r.run()
	}
}

func parse(line []byte) (r record, ok bool) {
	sum, body, found := bytes.Cut(line, []byte{' '})
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if !found || len(sum) != 8 || err != nil || uint64(crc32.Checksum(body, castagnoli)) != want {
		return record{}, false
	}
	if json.Unmarshal(body, &r) != nil || (r.Begin == "") == (r.End == "") {
		return record{}, false
	}
	return r, true
}

func (r record) run() endpoint.LeftRun {
	run := endpoint.LeftRun{Flow: r.Flow, Claim: protocol.Claim{
		MessageID: r.Begin, StoreSeq: r.StoreSeq, Attempt: r.Attempt, State: protocol.ClaimLost,
	}}
	if ticket, err := hex.DecodeString(r.Ticket); err == nil && len(ticket) == protocol.TicketBytes {
		run.Claim.Ticket = protocol.Ticket(ticket)
	}
	return run
}
