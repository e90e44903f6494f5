package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/workpulling/workpulling/test/bench/internal/report"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// options are the flags.
type options struct {
	only, format, file, dir, profiles string
	seconds, warm                     float64
	runs, workerProcesses             int
	list, explain                     bool
	backlogs                          string
	soak                              time.Duration
	rate                              int
}

func parse(arguments []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.only, "only", "", "measure the rows whose key matches this regular expression, such as 'jetstream|direct-memory/flood/256B/4w'")
	flags.Float64Var(&o.seconds, "seconds", 3, "how long a run is measured")
	flags.Float64Var(&o.warm, "warm", 1, "how long load runs before that")
	flags.IntVar(&o.runs, "runs", 5, "runs of each row, interleaved; the table has their medians")
	flags.IntVar(&o.workerProcesses, "worker-processes", 1, "in how many processes the workers run")
	flags.StringVar(&o.format, "o", "markdown", "markdown or json")
	flags.StringVar(&o.file, "write", "", "also write the table to this file, such as docs/performance.md")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "directory on the disk to measure; a short path, for the sockets below it")
	flags.StringVar(&o.profiles, "profiles", "", "write a CPU profile of each process into this directory")
	flags.BoolVar(&o.explain, "explain", false, "also run the rows of this project that a target speaks of with CPU profiles, and say what the CPU went to")
	flags.BoolVar(&o.list, "list", false, "print the keys of the rows and end")
	flags.StringVar(&o.backlogs, "backlogs", "", "instead of the rows, measure over backlogs of these sizes, such as 1000,100000,10000000, in the systems that -only names")
	flags.DurationVar(&o.soak, "soak", 0, "instead of the rows, run the systems that -only names at a fixed rate for so long, such as 30m, and see that their memory stays flat")
	flags.IntVar(&o.rate, "rate", paceRate, "jobs a second of a soak")
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.runs < 1 || o.seconds <= 0 || o.rate < 1 || !slices.Contains([]string{"markdown", "json"}, o.format) {
		return o, errors.New("see bench -h")
	}
	return o, nil
}

func run(arguments []string) error {
	o, err := parse(arguments)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("parsing -only: %w", err)
	}
	if o.long() {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return runLong(ctx, o, longSystems(only.MatchString))
	}
	chosen := slices.DeleteFunc(rows(systems()), func(r report.Row) bool { return !only.MatchString(r.Key()) })
	if len(chosen) == 0 {
		return fmt.Errorf("no row matches -only %s; see bench -list", o.only)
	}
	if o.list {
		for _, r := range chosen {
			fmt.Println(r.Key())
		}
		return nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	results, err := measure(ctx, o, chosen)
	if err != nil {
		return err
	}
	if o.explain {
		if err := explain(ctx, o, results); err != nil {
			return err
		}
	}
	if err := publish(o, arguments, results); err != nil {
		return err
	}
	return judge(results)
}

// measure runs every row once, then every row again: what disturbs the machine for a while disturbs all alike.
func measure(ctx context.Context, o options, chosen []report.Row) ([]report.Result, error) {
	results := make([]report.Result, len(chosen))
	figures := make([][]trial.Figures, len(chosen))
	for i, row := range chosen {
		results[i].Row = row
		if err := systemOf(row).Available(); err != nil {
			results[i].Skipped = err.Error()
			fmt.Fprintf(os.Stderr, "skipped %s: %v\n", row.Key(), err)
		}
	}
	began := time.Now()
	for n := range o.runs {
		for i, row := range chosen {
			if results[i].Skipped != "" {
				continue
			}
			f, err := trialOf(o, row).Run(ctx)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				results[i].Failures = append(results[i].Failures, err.Error())
				fmt.Fprintf(os.Stderr, "%5.0f s  run %d of %d  %-45s FAILED: %v\n", time.Since(began).Seconds(), n+1, o.runs, row.Key(), err)
				continue
			}
			figures[i] = append(figures[i], f)
			fmt.Fprintf(os.Stderr, "%5.0f s  run %d of %d  %-45s %s\n", time.Since(began).Seconds(), n+1, o.runs, row.Key(), line(f))
		}
	}
	for i := range results {
		results[i].Summary = report.Summarise(figures[i])
	}
	return results, nil
}

func line(f trial.Figures) string {
	text := fmt.Sprintf("%9.0f jobs/s  %6.1f µs CPU/job", f.JobsPerSecond, f.CPUPerJob.Seconds()*1e6)
	if f.P50 > 0 {
		text += fmt.Sprintf("  p50 %.2f ms  p99 %.2f ms", f.P50.Seconds()*1e3, f.P99.Seconds()*1e3)
	}
	return text
}

func systemOf(row report.Row) trial.System {
	all := systems()
	return all[slices.IndexFunc(all, func(s trial.System) bool { return s.Name() == row.System })]
}

func trialOf(o options, row report.Row) trial.Trial {
	return trial.Trial{
		System: systemOf(row), Dir: o.dir,
		Warm: time.Duration(o.warm * float64(time.Second)), Measure: time.Duration(o.seconds * float64(time.Second)),
		Stage: trial.Stage{
			Mode: row.Mode, PayloadBytes: row.PayloadBytes, Workers: row.Workers, Window: window, WorkerProcesses: max(o.workerProcesses, row.Workers/crowdProcess),
			Rate: row.Rate, Profiles: o.profiles,
		},
	}
}

// publish prints the results and writes them where they are asked for.
func publish(o options, arguments []string, results []report.Result) error {
	document := report.Document{
		Command: "make bench ARGS='" + strings.Join(arguments, " ") + "'", Machine: report.ThisMachine(o.dir),
		Results: results, Outcomes: report.CompareAll(targets(), results), Settings: settings(results),
	}
	if o.format == "json" {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(document); err != nil {
			return err
		}
	} else if err := document.Write(os.Stdout); err != nil {
		return err
	}
	if o.file == "" {
		return nil
	}
	return writeFile(o.file, document.Write)
}

func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// settings are those of the systems that were measured.
func settings(results []report.Result) (list []report.Setting) {
	for _, s := range systems() {
		if slices.ContainsFunc(results, func(r report.Result) bool { return r.Row.System == s.Name() && r.Skipped == "" }) {
			list = append(list, report.Setting{System: s.Name(), Text: s.Settings()})
		}
	}
	return list
}

// judge fails where a run failed.
func judge(results []report.Result) error {
	var errs []error
	for _, r := range results {
		for _, failure := range r.Failures {
			errs = append(errs, fmt.Errorf("%s: %s", r.Row.Key(), failure))
		}
	}
	return errors.Join(errs...)
}
