package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/workpulling/workpulling/test/bench/internal/breakdown"
	"github.com/workpulling/workpulling/test/bench/internal/report"
)

// explain runs each row of ours that a target speaks of once more, with CPU profiles, and adds what its CPU went to. These runs have no
// part in the figures, because profiling costs a little.
func explain(ctx context.Context, o options, results []report.Result) error {
	for i := range results {
		r := &results[i]
		ours := slices.ContainsFunc(targets(), func(t report.Target) bool { return t.Ours == r.Row.Key() })
		if !ours || !r.Measured() {
			continue
		}
		shares, err := profiled(ctx, o, r.Row)
		if err != nil {
			return fmt.Errorf("profiling %s: %w", r.Row.Key(), err)
		}
		r.Shares = shares
		fmt.Fprintf(os.Stderr, "profiled %-45s %s\n", r.Row.Key(), breakdown.Text(shares, 0.05))
	}
	return nil
}

func profiled(ctx context.Context, o options, row report.Row) ([]breakdown.Share, error) {
	dir, err := os.MkdirTemp("", "bench-profiles-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	o.profiles = dir
	if _, err := trialOf(o, row).Run(ctx); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.pprof"))
	if err != nil {
		return nil, err
	}
	return breakdown.Read(files)
}
