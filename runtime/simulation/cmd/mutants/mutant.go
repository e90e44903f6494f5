package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// mutant is one patch of runtime/simulation/mutants.
type mutant struct {
	number string
	name   string
	patch  string // path
	title  string
	// tests are the packages whose tests must find it; none means the simulator.
	tests []string
	files []string // that it changes, relative to the repository
}

var (
	patchName   = regexp.MustCompile(`^(\d{3})-([a-z0-9-]+)\.patch$`)
	patchNumber = regexp.MustCompile(`^\d{3}$`)
)

// readMutants reads every patch of a directory, by number. None is an error.
func readMutants(dir string) ([]mutant, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the mutants: %w", err)
	}
	var all []mutant
	for _, e := range entries {
		m, err := readMutant(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if len(all) > 0 && all[len(all)-1].number == m.number {
			return nil, fmt.Errorf("%s: the number is taken", e.Name())
		}
		all = append(all, m)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no mutants in %s", dir)
	}
	return all, nil
}

// readMutant reads one patch: lines of text, of which the first is the title and one may begin with "Tests:", then the diff.
func readMutant(path string) (mutant, error) {
	name := patchName.FindStringSubmatch(filepath.Base(path))
	if name == nil {
		return mutant{}, fmt.Errorf("%s: the name of a mutant is NNN-name.patch", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return mutant{}, fmt.Errorf("reading a mutant: %w", err)
	}
	m := mutant{number: name[1], name: name[2], patch: path}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "+++ b/"):
			m.files = append(m.files, strings.TrimPrefix(line, "+++ b/"))
		case len(m.files) > 0:
		case m.title == "":
			m.title = line
		case strings.HasPrefix(line, "Tests:"):
			m.tests = strings.Fields(strings.TrimPrefix(line, "Tests:"))
		}
	}
	if m.title == "" || len(m.files) == 0 {
		return mutant{}, fmt.Errorf("%s: a mutant is a title and a unified diff", path)
	}
	return m, nil
}

// overlay patches copies of the files below dir and returns the file that makes the go command build them instead. The
// repository itself is never touched.
func (m mutant) overlay(ctx context.Context, root, dir string) (string, error) {
	replace := map[string]string{}
	for _, file := range m.files {
		source, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return "", fmt.Errorf("the patch does not apply: %w", err)
		}
		copied := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(copied), 0o700); err != nil {
			return "", fmt.Errorf("copying %s: %w", file, err)
		}
		if err := os.WriteFile(copied, source, 0o600); err != nil {
			return "", fmt.Errorf("copying %s: %w", file, err)
		}
		replace[filepath.Join(root, file)] = copied
	}
	apply := exec.CommandContext(ctx, "git", "apply", m.patch)
	apply.Dir = dir
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := apply.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the patch does not apply: %s", bytes.TrimSpace(out))
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	return path, nil
}

// verdict is what became of one mutant.
type verdict struct {
	found bool
	by    string // the invariant and the profile, or the test, or why it was not found
	seeds uint64 // how many it took, or how many found nothing; 0 for tests
	err   error  // it could not be tried
}

func (v verdict) name() string {
	switch {
	case v.err != nil:
		return rowBroken
	case v.found:
		return rowFound
	default:
		return rowSurvived
	}
}

func (v verdict) String() string {
	switch {
	case v.err != nil:
		return v.err.Error()
	case v.seeds > 0:
		return fmt.Sprintf("%s, %d seeds", v.by, v.seeds)
	default:
		return v.by
	}
}

// hunt builds the mutant and lets the simulator, or the tests that it names, look for it.
func (m mutant) hunt(ctx context.Context, root string, seeds uint64) verdict {
	dir, err := os.MkdirTemp("", "mutant-"+m.number+"-")
	if err != nil {
		return verdict{err: fmt.Errorf("making a directory: %w", err)}
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(ctx, root, dir)
	if err != nil {
		return verdict{err: err}
	}
	if len(m.tests) > 0 {
		return m.test(ctx, root, overlay)
	}
	binary := filepath.Join(dir, "sim")
	if err := build(ctx, root, overlay, binary); err != nil {
		return verdict{err: err}
	}
	return simulate(ctx, binary, seeds)
}

func build(ctx context.Context, root, overlay, binary string) error {
	arguments := []string{"build", "-o", binary}
	if overlay != "" {
		arguments = append(arguments, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(arguments, "./runtime/simulation/cmd/sim")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("it does not compile: %s", bytes.TrimSpace(out))
	}
	return nil
}

var (
	seedLine      = regexp.MustCompile(`(?m)^seed (\d+), profile "([^"]*)"`)
	violationLine = regexp.MustCompile(`(?m)^VIOLATION (\S+) at step`)
)

// simulate runs the simulator until its first violation.
func simulate(ctx context.Context, binary string, seeds uint64) verdict {
	cmd := exec.CommandContext(ctx, binary, "-seeds", fmt.Sprint(seeds), "-lines", "0", "-parallel", "1", "-quiet")
	out, err := cmd.CombinedOutput()
	seed, violation := seedLine.FindSubmatch(out), violationLine.FindSubmatch(out)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return verdict{by: "nothing", seeds: seeds}
	case ctx.Err() != nil:
		return verdict{err: errors.New("the time was up")}
	case seed != nil && violation != nil:
		var n uint64
		if _, err := fmt.Sscan(string(seed[1]), &n); err != nil {
			return verdict{err: fmt.Errorf("reading the seed: %w", err)}
		}
		return verdict{found: true, seeds: n, by: fmt.Sprintf("%s in %s", violation[1], seed[2])}
	case errors.As(err, &exit) && exit.ExitCode() == 1: // only the count of faults is short
		return verdict{by: "nothing; " + lastLine(out), seeds: seeds}
	default:
		return verdict{err: fmt.Errorf("the process ended: %s", lastLine(out))}
	}
}

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// test runs the tests that must find the mutant; without an overlay, in the code as it is.
func (m mutant) test(ctx context.Context, root, overlay string) verdict {
	arguments := []string{"test"}
	if overlay != "" {
		arguments = append(arguments, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(arguments, m.tests...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "RAPID_NOFAILFILE=true") // what random tests find in a mutant is nothing to keep
	out, err := cmd.CombinedOutput()
	failed := failedTest.FindAllSubmatch(out, -1)
	switch {
	case err == nil:
		return verdict{by: "the tests passed"}
	case bytes.Contains(out, []byte("[build failed]")):
		return verdict{err: fmt.Errorf("it does not compile: %s", bytes.TrimSpace(out))}
	case len(failed) == 0:
		return verdict{err: fmt.Errorf("testing: %w: %s", err, lastLine(out))}
	}
	first := string(failed[0][1])
	for _, next := range failed[1:] { // a test comes before its parts
		name := string(next[1])
		if !strings.HasPrefix(name, first+"/") {
			break
		}
		first = name
	}
	return verdict{found: true, by: first}
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}
