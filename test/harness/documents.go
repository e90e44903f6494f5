package harness

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Document is one real file of this machine.
type Document struct {
	// ID is its path below the directory it was found in; it becomes the ce-id of its job.
	ID      string
	Content []byte
}

// SHA256 is the hash of the content in hexadecimal, which the sample app computes too.
func (d Document) SHA256() string {
	sum := sha256.Sum256(d.Content)
	return hex.EncodeToString(sum[:])
}

// maxIDBytes leaves room for the source in a message id of 256 bytes.
const maxIDBytes = 180

// errEnough ends a walk.
var errEnough = errors.New("enough documents")

// Documents collects Go source files from Go's own source tree and then from the module cache: count of them, each not
// empty, valid UTF-8 and of at most maxBytes.
func Documents(ctx context.Context, count, maxBytes int) ([]Document, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("asking go where its sources are: %w", err)
	}
	places := strings.Fields(string(out))
	if len(places) == 0 {
		return nil, errors.New("go has no source tree")
	}
	places[0] = filepath.Join(places[0], "src")
	var found []Document
	for i, place := range places {
		prefix := []string{"go/", "mod/"}[i]
		err := filepath.WalkDir(place, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case len(found) == count:
				return errEnough
			case !entry.Type().IsRegular() || !strings.HasSuffix(path, ".go"):
				return nil
			}
			relative, err := filepath.Rel(place, path)
			if err != nil {
				return err
			}
			id := prefix + filepath.ToSlash(relative)
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if len(content) > 0 && len(content) <= maxBytes && len(id) <= maxIDBytes && printable(id) && utf8.Valid(content) {
				found = append(found, Document{id, content})
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			return nil, fmt.Errorf("looking for documents: %w", err)
		}
	}
	if len(found) < count {
		return nil, fmt.Errorf("only %d of %d documents are on this machine", len(found), count)
	}
	return found, nil
}

func printable(id string) bool {
	return !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Archive writes documents as a tar archive.
func Archive(w io.Writer, documents []Document) error {
	archive := tar.NewWriter(w)
	for _, d := range documents {
		if err := archive.WriteHeader(&tar.Header{Name: d.ID, Mode: 0o644, Size: int64(len(d.Content)), Typeflag: tar.TypeReg}); err != nil {
			return fmt.Errorf("archiving %s: %w", d.ID, err)
		}
		if _, err := archive.Write(d.Content); err != nil {
			return fmt.Errorf("archiving %s: %w", d.ID, err)
		}
	}
	return archive.Close()
}
