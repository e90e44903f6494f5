// Command chaos breaks a local Kubernetes for a stated time while jobs are submitted, and reports what became of them. It ends with 0 if
// nothing was wrong, with 1 if anything was, and with 2 if the run could not be made.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/workpulling/workpulling/test/chaos"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
	}
	os.Exit(code)
}

// Exit codes.
const (
	good, wrong, broken = 0, 1, 2
)

func run(ctx context.Context) (code int, err error) {
	options := chaos.Options{Progress: os.Stderr}
	minutes := flag.Float64("minutes", 2, "how long faults come")
	flag.Uint64Var(&options.Seed, "seed", uint64(time.Now().UnixNano()%1e6), "of the faults, the jobs and the app")
	flag.StringVar(&options.Root, "root", ".", "the repository")
	flag.StringVar(&options.App, "app", "bin/chaos-app", "static program of the workers' app (test/chaos/cmd/app)")
	flag.StringVar(&options.Dir, "dir", "", "directory of the run (default: a new one below dist/chaos)")
	flag.Float64Var(&options.Rate, "rate", 25, "jobs a second at most, for each flow")
	flag.Float64Var(&options.LeastRate, "least-rate", 5, "jobs a second that a flow has to accept on average")
	flag.DurationVar(&options.Grace, "grace", time.Minute, "longest stall beyond the time that a fault stands which halts the flow")
	flag.StringVar(&options.Only, "only", "", "only faults with this text in their name")
	flag.BoolVar(&options.Claim, "claim", false, "enter a job into the books that was never sent: the run has to fail")
	format := flag.String("o", "text", "text or json, on standard output")
	again := flag.String("judge", "", "make no run, and judge that of this directory again")
	flag.Parse()
	if *format != "text" && *format != "json" {
		return broken, fmt.Errorf("-o is %q: want text or json", *format)
	}
	if *again != "" {
		report, err := chaos.Judge(*again)
		if err != nil {
			return broken, err
		}
		return show(report, *format)
	}
	options.Length = time.Duration(*minutes * float64(time.Minute))
	if err := directories(&options); err != nil {
		return broken, err
	}
	fmt.Fprintf(os.Stderr, "seed %d, %s of faults, books and reports in %s\n", options.Seed, options.Length, options.Dir)
	report, err := chaos.Run(ctx, options)
	if report == nil {
		return broken, err
	}
	code, shown := show(report, *format)
	if err != nil {
		code = max(code, wrong)
	}
	return code, errors.Join(err, shown)
}

// directories makes every path absolute, for nodes see them too.
func directories(o *chaos.Options) (err error) {
	if o.Dir == "" {
		o.Dir = filepath.Join(o.Root, "dist", "chaos", fmt.Sprintf("%s-%d", time.Now().UTC().Format("20060102-150405"), o.Seed))
	}
	for _, path := range []*string{&o.Root, &o.Dir, &o.App} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return fmt.Errorf("making the directory of the run: %w", err)
	}
	return nil
}

func show(report *chaos.Report, format string) (code int, err error) {
	text := []byte(report.Text())
	if format == "json" {
		if text, err = report.JSON(); err != nil {
			return broken, err
		}
	}
	if len(report.Wrong) > 0 {
		code = wrong
	}
	_, err = os.Stdout.Write(text)
	return code, err
}
