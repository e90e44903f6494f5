package fencing

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// recordFormat is the version of the envelope and of every body. Another one is ignored, which costs no more than a question to the API
// server.
const recordFormat = 1

// mostRecordBytes bounds what is read back.
const mostRecordBytes = 16 << 20

// record is a file that keeps what the API server said for a process that starts while it is away. Whatever is wrong with it, it is as
// good as absent: nothing in it is more than an earlier answer.
type record struct {
	path string
	// owner is the UID of the flow: a volume that was restored for another one knows nothing of it.
	owner string
}

// envelope is the file.
type envelope struct {
	Format int             `json:"format"`
	Owner  string          `json:"owner"`
	Sum    string          `json:"sha256"`
	Body   json.RawMessage `json:"body"`
}

// errNoRecord says that there is nowhere to keep anything.
var errNoRecord = errors.New("no directory to keep records in")

func sum(body []byte) string {
	hash := sha256.Sum256(body)
	return hex.EncodeToString(hash[:])
}

// read decodes the body. The error is fs.ErrNotExist where nothing was kept.
func (r record) read(into any) error {
	if r.path == "" {
		return errNoRecord
	}
	file, err := os.Open(r.path)
	if err != nil {
		return fmt.Errorf("opening the record: %w", err)
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, mostRecordBytes+1))
	if err != nil {
		return fmt.Errorf("reading the record: %w", err)
	}
	return r.decode(raw, into)
}

func (r record) decode(raw []byte, into any) error {
	var e envelope
	if len(raw) > mostRecordBytes {
		return errors.New("the record is larger than any that is written")
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return fmt.Errorf("decoding the record: %w", err)
	}
	switch {
	case e.Format != recordFormat:
		return fmt.Errorf("the record has the format %d", e.Format)
	case e.Owner != r.owner:
		return errors.New("the record is that of another flow")
	case e.Sum != sum(e.Body):
		return errors.New("the record is damaged")
	}
	if err := json.Unmarshal(e.Body, into); err != nil {
		return fmt.Errorf("decoding the body of the record: %w", err)
	}
	return nil
}

// write replaces the file, so that a kill or a full volume leaves the old one or the new one, whole.
func (r record) write(body any) error {
	if r.path == "" {
		return errNoRecord
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding the record: %w", err)
	}
	if raw, err = json.Marshal(envelope{Format: recordFormat, Owner: r.owner, Sum: sum(raw), Body: raw}); err != nil {
		return fmt.Errorf("encoding the record: %w", err)
	}
	if err := replace(r.path, raw); err != nil {
		return fmt.Errorf("writing the record: %w", err)
	}
	return nil
}

func replace(path string, content []byte) error {
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, failure := file.Write(content)
	if err := errors.Join(failure, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(path+".new"))
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
