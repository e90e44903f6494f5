// Command mutants is the test of the tests: it plants the deliberate bugs of runtime/simulation/mutants into the machines and the
// queue's ledger, one at a time, and demands that the simulator, or the tests that the bug names, find each of them.
//
// Invariant: the repository is never touched. A mutant is built from patched copies through the go command's -overlay.
//
// It exits with 1 when a mutant survives, when a patch applies no longer, or when the seeds that found mutants find fault with the
// machines as they are.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

type arguments struct {
	n        int
	only     string
	seeds    uint64
	parallel int
	limit    time.Duration
	record   string
	commit   string
}

func main() {
	var a arguments
	flag.IntVar(&a.n, "n", 0, "try only so many, another choice each day; 0 tries all")
	flag.StringVar(&a.only, "only", "", "try only these numbers, separated by commas")
	flag.Uint64Var(&a.seeds, "seeds", 20000, "within how many seeds the simulator must find a mutant")
	flag.IntVar(&a.parallel, "parallel", runtime.GOMAXPROCS(0), "how many to try at a time")
	flag.DurationVar(&a.limit, "limit", 20*time.Minute, "how long one mutant may take")
	flag.StringVar(&a.record, "record", "", "keep the verdicts in this page, and go on after those that it has of this commit")
	flag.StringVar(&a.commit, "commit", "?", "with -record: the commit to name")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	failed, err := run(ctx, a)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2) //nolint:gocritic // nothing is left to clean up
	case failed:
		os.Exit(1)
	}
}

func run(ctx context.Context, a arguments) (failed bool, err error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return false, fmt.Errorf("finding the repository: %w", err)
	}
	all, err := readMutants(filepath.Join(root, "runtime", "simulation", "mutants"))
	if err != nil {
		return false, err
	}
	chosen, err := choose(all, a, time.Now())
	if err != nil {
		return false, err
	}
	note := func(mutant, verdict) error { return nil }
	if a.record != "" {
		r, err := openRecord(a.record, a.commit)
		if err != nil {
			return false, err
		}
		r.keep(all)
		chosen, note = slices.DeleteFunc(chosen, r.found), r.note
	}
	began := time.Now()
	verdicts, err := hunt(ctx, root, chosen, a, note)
	if err != nil {
		return false, err
	}
	found, bySimulator, highest := 0, 0, uint64(0)
	for i, m := range chosen {
		v := verdicts[i]
		fmt.Printf("%s  %-8s  %s: %v\n", m.number, v.name(), m.title, v)
		if !v.found {
			failed = true
			continue
		}
		found++
		if len(m.tests) == 0 {
			bySimulator++
			highest = max(highest, v.seeds)
		}
	}
	took := time.Since(began).Round(time.Second)
	fmt.Printf("found %d of %d planted, %d of them by the simulator (%d in all) in %v\n", found, len(chosen), bySimulator, len(all), took)
	clean, err := baselineTests(ctx, root, chosen)
	if failed = failed || !clean; highest == 0 || err != nil {
		return failed, err
	}
	clean, err = baseline(ctx, root, highest)
	return failed || !clean, err
}

// baselineTests runs the tests that mutants name in the code as it is: a test that fails there as well has found nothing.
func baselineTests(ctx context.Context, root string, mutants []mutant) (clean bool, err error) {
	tried := map[string]bool{}
	for _, m := range mutants {
		name := strings.Join(m.tests, " ")
		if name == "" || tried[name] {
			continue
		}
		tried[name] = true
		if v := m.test(ctx, root, ""); v.err != nil || v.found {
			fmt.Printf("without a mutant, %s: %v\n", name, v)
			return false, v.err
		}
		fmt.Printf("without a mutant, %s passes\n", name)
	}
	return true, nil
}

// baseline runs the machines as they are through the seeds that found mutants.
func baseline(ctx context.Context, root string, seeds uint64) (clean bool, err error) {
	dir, err := os.MkdirTemp("", "mutant-none-")
	if err != nil {
		return false, fmt.Errorf("making a directory: %w", err)
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "sim")
	if err := build(ctx, root, "", binary); err != nil {
		return false, err
	}
	switch v := simulate(ctx, binary, seeds); {
	case v.err != nil:
		return false, v.err
	case v.found:
		fmt.Printf("the machines as they are break an invariant: %v\n", v)
		return false, nil
	}
	fmt.Printf("without a mutant, seeds 1 to %d find nothing\n", seeds)
	return true, nil
}

// choose takes the mutants that are asked for: by number, or n of them evenly from all, from another start each day. A number that
// no mutant has is an error, so that nobody takes it for one that was found.
func choose(all []mutant, a arguments, today time.Time) ([]mutant, error) {
	if a.only != "" {
		return numbered(all, strings.Split(a.only, ","))
	}
	if a.n <= 0 || a.n >= len(all) {
		return slices.Clone(all), nil
	}
	day := int(today.Unix() / (24 * 60 * 60))
	var chosen []mutant
	for i := range a.n {
		chosen = append(chosen, all[(i*len(all)/a.n+day)%len(all)])
	}
	return chosen, nil
}

// numbered takes the mutants of these numbers, in the order of all.
func numbered(all []mutant, numbers []string) ([]mutant, error) {
	for _, number := range numbers {
		if !slices.ContainsFunc(all, func(m mutant) bool { return m.number == number }) {
			return nil, fmt.Errorf("there is no mutant %q; they are %s to %s", number, all[0].number, all[len(all)-1].number)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(m mutant) bool { return !slices.Contains(numbers, m.number) }), nil
}

// hunt tries mutants, some at a time, and notes each verdict as soon as it is known.
func hunt(ctx context.Context, root string, mutants []mutant, a arguments, note func(mutant, verdict) error) ([]verdict, error) {
	verdicts, errs := make([]verdict, len(mutants)), make([]error, len(mutants))
	slots := make(chan struct{}, max(1, a.parallel))
	var group sync.WaitGroup
	for i, m := range mutants {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		group.Go(func() {
			defer func() { <-slots }()
			limited, cancel := context.WithTimeout(ctx, a.limit)
			defer cancel()
			verdicts[i] = m.hunt(limited, root, a.seeds)
			if ctx.Err() == nil {
				fmt.Fprintf(os.Stderr, "%s %s: %s, %v\n", m.number, m.name, verdicts[i].name(), verdicts[i])
				errs[i] = note(m, verdicts[i])
			}
		})
	}
	group.Wait()
	return verdicts, errors.Join(errors.Join(errs...), ctx.Err())
}
