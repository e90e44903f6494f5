package kubebinary

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// modulePath names the Go module that holds the sources.
const modulePath = "github.com/workpulling/workpulling/hack/cluster"

// ErrNoSource means that the sources of the program were not found.
var ErrNoSource = errors.New("the sources of the cluster are not here: run inside the Workpulling repository or pass --source .../hack/cluster")

// FindSource looks for the module in dir, in dir/hack/cluster, and the same in each parent.
func FindSource(dir string) (string, error) {
	for {
		for _, candidate := range []string{dir, filepath.Join(dir, "hack", "cluster")} {
			if isModule(candidate) {
				return candidate, nil
			}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", ErrNoSource
		}
		dir = parent
	}
}

func isModule(dir string) bool {
	f, err := os.Open(filepath.Join(dir, "go.mod"))
	if err != nil {
		return false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if path, ok := strings.CutPrefix(lines.Text(), "module "); ok {
			return strings.TrimSpace(path) == modulePath
		}
	}
	return false
}

// key hashes what decides the content of the program. goVersion also carries the platform.
func key(source, goVersion string) (string, error) {
	files := []string{"go.mod", "go.sum"}
	for _, dir := range []string{"cmd/kube", "cmd/pause", "internal/provisioner"} {
		found, err := filepath.Glob(filepath.Join(source, dir, "*.go"))
		if err != nil {
			return "", fmt.Errorf("listing the sources: %w", err)
		}
		for _, f := range found {
			if !strings.HasSuffix(f, "_test.go") {
				files = append(files, filepath.Join(dir, filepath.Base(f)))
			}
		}
	}
	slices.Sort(files)
	hash := sha256.New()
	fmt.Fprintln(hash, goVersion)
	for _, name := range files {
		if err := hashFile(hash, source, name); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

func hashFile(hash io.Writer, dir, name string) error {
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return fmt.Errorf("reading the sources: %w", err)
	}
	fmt.Fprintln(hash, name, len(content))
	_, err = hash.Write(content)
	return err
}
