package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// results are the ends of tests by package directory and name: pass, fail or skip.
type results map[string]map[string]string

// event is one line of go test -json.
type event struct {
	Action string
	Test   string
	Output string
}

// runTests runs the named top-level tests, a package at a time, and returns how each test and subtest ended.
func runTests(ctx context.Context, root string, tests map[string][]string, say func(string)) (results, error) {
	ends := results{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	for dir, functions := range tests {
		group.Go(func() error {
			found, output, err := runPackage(ctx, root, dir, functions)
			mu.Lock()
			defer mu.Unlock()
			ends[dir] = found
			if err != nil {
				say(output)
			}
			say(fmt.Sprintf("%-40s %d tests ran\n", dir, len(found)))
			if len(found) == 0 {
				return fmt.Errorf("running the tests of %s: %w", dir, err)
			}
			return nil
		})
	}
	return ends, group.Wait()
}

func runPackage(ctx context.Context, root, dir string, functions []string) (map[string]string, string, error) {
	slices.Sort(functions)
	// The order of names is part of the key under which Go caches the result.
	command := exec.CommandContext(ctx, "go", "test", "-json", "-timeout", "30m", "-run", "^("+strings.Join(functions, "|")+")$", "./"+dir)
	command.Dir = root
	raw, err := command.Output()
	ends, output := map[string]string{}, map[string][]string{}
	lines := json.NewDecoder(bytes.NewReader(raw))
	for lines.More() {
		var e event
		if broken := lines.Decode(&e); broken != nil {
			return ends, string(raw), fmt.Errorf("reading the output of go test: %w", broken)
		}
		switch e.Action {
		case "output":
			output[e.Test] = append(output[e.Test], e.Output)
		case "pass", "fail", "skip":
			if e.Test != "" {
				ends[e.Test] = e.Action
			}
		}
	}
	if err == nil {
		return ends, "", nil
	}
	var told strings.Builder
	for test, lines := range output {
		if test == "" || ends[test] == "fail" {
			told.WriteString(strings.Join(lines, ""))
		}
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(ends) == 0 {
		told.Write(exit.Stderr)
	}
	return ends, told.String(), err
}

// verdict says what is wrong with a test, or nothing. A part of it that was skipped is wrong too, at any depth: Go says of a test that
// it passed, whatever of it was skipped.
func (r results) verdict(t reference) string {
	pattern := glob(strings.ReplaceAll(t.name, " ", "_"))
	matched := false
	for _, name := range slices.Sorted(maps.Keys(r[t.dir])) {
		if end := r[t.dir][name]; pattern.MatchString(name) {
			matched = true
			if end != "pass" {
				return fmt.Sprintf("%s %s: %s", t.dir, name, end)
			}
		} else if end == "skip" && isPart(name, pattern) {
			return fmt.Sprintf("%s %s: %s", t.dir, name, end)
		}
	}
	if !matched {
		return fmt.Sprintf("%s: no such test was run", t)
	}
	return ""
}

// isPart says whether a test lies below one that a pattern matches.
func isPart(name string, pattern *regexp.Regexp) bool {
	for i, c := range name {
		if c == '/' && pattern.MatchString(name[:i]) {
			return true
		}
	}
	return false
}
