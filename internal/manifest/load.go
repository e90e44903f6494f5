package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/workpulling/workpulling/config/crd"
	"github.com/workpulling/workpulling/internal/admission"
)

// DefaultNamespace is the namespace of objects that name none.
const DefaultNamespace = "default"

// Stdin is the path that stands for the standard input.
const Stdin = "-"

// Load reads the manifests at paths: files, directories, whose files *.yaml, *.yml and *.json are read but not their subdirectories, and
// Stdin, which is read from stdin. The error joins all that is wrong in all of them.
func Load(ctx context.Context, paths []string, stdin io.Reader) (Set, error) {
	l := &loader{seen: map[identity]Position{}, kinds: map[string]*admission.Validator{}}
	for kind, definition := range map[string][]byte{kindFlow: crd.WorkPullingFlow, kindPool: crd.WorkerPool} {
		validator, err := admission.New(definition)
		if err != nil {
			return Set{}, err
		}
		l.kinds[kind] = validator
	}
	files, err := expand(paths)
	if err != nil {
		return Set{}, err
	}
	var errs []error
	for _, file := range files {
		errs = append(errs, l.file(ctx, file, stdin)...)
	}
	if len(errs) == 0 && len(l.set.Flows) == 0 && len(l.set.Pools) == 0 {
		errs = append(errs, errEmpty)
	}
	return l.set, errors.Join(errs...)
}

// loader collects what the files hold.
type loader struct {
	set   Set
	seen  map[identity]Position
	kinds map[string]*admission.Validator
}

// expand replaces directories by their files. A file that is named twice is read once.
func expand(paths []string) (files []string, err error) {
	var errs []error
	for _, path := range paths {
		names := []string{path}
		if info, err := os.Stat(path); path != Stdin && err != nil {
			errs = append(errs, fmt.Errorf("reading manifests: %w", err))
			continue
		} else if path != Stdin && info.IsDir() {
			if names, err = manifestsIn(path); err != nil {
				errs = append(errs, err)
			}
		}
		for _, name := range names {
			if !slices.Contains(files, name) {
				files = append(files, name)
			}
		}
	}
	return files, errors.Join(errs...)
}

func manifestsIn(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	for _, entry := range entries {
		switch filepath.Ext(entry.Name()) {
		case ".yaml", ".yml", ".json":
			if !entry.IsDir() {
				names = append(names, filepath.Join(dir, entry.Name()))
			}
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("the directory %s holds no file *.yaml, *.yml or *.json", dir)
	}
	return names, nil
}

func (l *loader) file(ctx context.Context, path string, stdin io.Reader) (errs []error) {
	at := Position{File: path, Line: 1, Dir: filepath.Dir(path)}
	var text []byte
	var err error
	if path == Stdin {
		at.File, at.Dir = "stdin", ""
		text, err = io.ReadAll(stdin)
	} else {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return []error{fmt.Errorf("reading %s: %w", at.File, err)}
	}
	for _, d := range split(at, text) {
		if d.empty() {
			continue
		}
		object, node, err := d.object()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, l.take(ctx, entry{object: object, node: &node, document: d.at})...)
	}
	return errs
}
