package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/workpulling/workpulling/test/bench/internal/report"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// crowd is how many workers a flow is to serve at the price of one; crowdProcess is how many of them share a process.
const (
	crowd        = 500
	crowdProcess = 125
)

// soakWindow is how long settled jobs are remembered in a soak, so that their number levels off within the first third.
const soakWindow = 5 * time.Minute

// soakSlices is into how many parts a soak is cut: minutes, of the half hour that it should take.
const soakSlices = 30

// long says whether one of the long measurements is asked for.
func (o options) long() bool { return o.backlogs != "" || o.soak > 0 }

// runLong measures backlogs and the soak, each system that -only matches in turn.
func runLong(ctx context.Context, o options, chosen []trial.System) error {
	document := report.Scale{Command: "bench " + strings.Join(os.Args[1:], " "), Machine: report.ThisMachine(o.dir)}
	sizes, err := o.sizes()
	if err != nil {
		return err
	}
	var errs []error
	for _, system := range chosen {
		for _, size := range sizes {
			figures, err := o.trialOf(system, trial.Stage{Backlog: size}).RunBacklog(ctx)
			if err != nil {
				return fmt.Errorf("%s with a backlog of %d: %w", system.Name(), size, err)
			}
			document.Backlogs = append(document.Backlogs, report.BacklogResult{System: system.Name(), Backlog: size, Figures: figures})
			fmt.Fprintf(os.Stderr, "%s, backlog %d: %s\n", system.Name(), size, document.Backlogs[len(document.Backlogs)-1].Line())
		}
		if o.soak > 0 {
			result, err := soak(ctx, o, system)
			if err != nil {
				return fmt.Errorf("soak of %s: %w", system.Name(), err)
			}
			document.Soaks = append(document.Soaks, result)
			errs = append(errs, result.Figures.Grown())
		}
	}
	document.Machine = report.ThisMachine(o.dir) // the load at the end
	if err := document.Write(os.Stdout); err != nil {
		return err
	}
	if o.file != "" {
		errs = append(errs, writeFile(o.file, document.Write))
	}
	return errors.Join(errs...)
}

func soak(ctx context.Context, o options, system trial.System) (report.SoakResult, error) {
	t := o.trialOf(system, trial.Stage{Rate: o.rate, Deduplication: soakWindow, Slices: soakSlices, Slice: o.soak / soakSlices})
	figures, err := t.RunSoak(ctx, func(slice int, s trial.Slice) {
		fmt.Fprintf(os.Stderr, "%s, soak, part %d: %s\n", system.Name(), slice, report.SliceLine(s))
	})
	return report.SoakResult{System: system.Name(), Rate: o.rate, Slice: t.Stage.Slice, Window: soakWindow, Figures: figures}, err
}

func (o options) trialOf(system trial.System, stage trial.Stage) trial.Trial {
	stage.PayloadBytes, stage.Workers, stage.Window = smallJob, workers, window
	stage.WorkerProcesses, stage.Profiles = o.workerProcesses, o.profiles
	return trial.Trial{
		System: system, Dir: o.dir, Stage: stage,
		Warm: time.Duration(o.warm * float64(time.Second)), Measure: time.Duration(o.seconds * float64(time.Second)),
	}
}

// sizes are the backlogs that are asked for.
func (o options) sizes() (sizes []int, err error) {
	if o.backlogs == "" {
		return nil, nil
	}
	for text := range strings.SplitSeq(o.backlogs, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > trial.MaxJobs/2 {
			return nil, fmt.Errorf("no size of a backlog: %q", text)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

// longSystems are those whose name matches and whose backlog may be as long as one wants.
func longSystems(only func(string) bool) []trial.System {
	return slices.DeleteFunc(systems(), func(s trial.System) bool {
		return !only(s.Name()) || s.Available() != nil || !slices.Contains(unbounded, s.Name())
	})
}
