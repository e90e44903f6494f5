package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Trial is one run of one system.
type Trial struct {
	System System
	Stage  Stage
	// Warm is how long load runs before anything is measured, Measure how long it is measured.
	Warm, Measure time.Duration
	// Dir is where the directory of the trial is made: on the disk to measure, with a short path for the sockets in it.
	Dir string
}

// Figures are what a trial measured. Those that its mode does not measure are 0.
type Figures struct {
	// JobsPerSecond were handled, or for Single submitted.
	JobsPerSecond float64 `json:"jobsPerSecond"`
	// P50 and P99 are from the intended send to the handler for Paced, and of one call for Single.
	P50 time.Duration `json:"p50Nanoseconds,omitempty"`
	P99 time.Duration `json:"p99Nanoseconds,omitempty"`
	// CPUPerJob is of all processes.
	CPUPerJob time.Duration `json:"cpuPerJobNanoseconds"`
	// Jobs is how many were submitted, accepted and handled once each in the whole trial.
	Jobs uint64 `json:"jobs"`
	// LeastHandled and MostHandled are by the least and the most loaded of the workers.
	LeastHandled uint64 `json:"leastHandled"`
	MostHandled  uint64 `json:"mostHandled"`
}

// drainLimit is how long the last jobs may take; tests shorten it.
var drainLimit = 60 * time.Second

// linger is how long a repeated delivery of the last jobs is waited for.
const linger = 100 * time.Millisecond

// Run runs the trial. An error means that it has no figures.
func (t Trial) Run(ctx context.Context) (figures Figures, err error) {
	err = t.perform(func(r run) error {
		if figures, err = r.measure(ctx); err != nil {
			return err
		}
		figures, err = r.finish(figures)
		return err
	})
	return figures, err
}

// run is a trial that is under way.
type run struct {
	Trial
	ledger *Ledger
	cast   []*process
}

// perform raises the processes of a trial for a time, and leaves nothing behind.
func (t Trial) perform(act func(run) error) (err error) {
	t.Stage.System = t.System.Name()
	if t.Stage.Dir, err = os.MkdirTemp(t.Dir, "bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(t.Stage.Dir)) }()
	if err := os.Chmod(t.Stage.Dir, 0o755); err != nil { //nolint:gosec // a database server runs as another user
		return err
	}
	t.Stage.Ledger = ledgerPath(t.Stage.Dir)
	r := run{Trial: t}
	if r.ledger, err = OpenLedger(t.Stage.Ledger); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.ledger.Close(), os.Remove(t.Stage.Ledger)) }()
	if r.cast, err = t.raise(); err == nil {
		err = act(r)
	}
	if err != nil {
		return errors.Join(err, endAll(r.cast))
	}
	return nil
}

// ledgerPath is in memory where the machine has a file system for that, so that no disk write of ours disturbs.
func ledgerPath(dir string) string {
	const memory = "/dev/shm"
	if info, err := os.Stat(memory); err == nil && info.IsDir() {
		return filepath.Join(memory, filepath.Base(dir)+".ledger")
	}
	return filepath.Join(dir, "ledger")
}

// raise starts the processes one after the other.
func (t Trial) raise() (cast []*process, err error) {
	for i, p := range t.System.Processes(&t.Stage) {
		started, err := spawn(&t.Stage, p, i)
		if err != nil {
			return cast, err
		}
		cast = append(cast, started)
	}
	return cast, nil
}

// endAll ends the processes, the last started first.
func endAll(cast []*process) error {
	var errs []error
	for _, p := range slices.Backward(cast) {
		if !p.stopped {
			_, err := p.stop()
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// mark is a moment of a trial.
type mark struct {
	at        time.Time
	submitted uint64
	handled   uint64
	cpu       time.Duration
}

func take(ledger *Ledger) (mark, error) {
	cpu, err := descendantsCPU(os.Getpid())
	return mark{time.Now(), ledger.Accepted(), ledger.Handled(), cpu}, err
}

// measure runs the load and waits until all of it was handled.
func (r run) measure(ctx context.Context) (Figures, error) {
	r.ledger.SetPhase(Running)
	defer r.ledger.SetPhase(Ending)
	from, to, err := r.window(ctx)
	if err != nil {
		return Figures{}, err
	}
	r.ledger.SetPhase(Ending)
	if err := drained(ctx, r.ledger, drainLimit); err != nil {
		return Figures{}, err
	}
	return between(from, to, r.Stage.Mode), nil
}

// window lets the load run, and marks the part of it that is measured.
func (r run) window(ctx context.Context) (from, to mark, err error) {
	if err := r.await(ctx, r.Warm); err != nil {
		return from, to, err
	}
	r.ledger.MeasureFrom(Monotonic())
	if from, err = take(r.ledger); err != nil {
		return from, to, err
	}
	if err := r.await(ctx, r.Measure); err != nil {
		return from, to, err
	}
	to, err = take(r.ledger)
	return from, to, err
}

// await lets time pass while the producer is at work.
func (r run) await(ctx context.Context, d time.Duration) error {
	for until := time.Now().Add(d); ; {
		left := time.Until(until)
		if left <= 0 {
			return nil
		}
		if err := pause(ctx, min(left, 50*time.Millisecond)); err != nil {
			return err
		}
		if r.ledger.Ended() {
			return errors.New("the producer ended before its time")
		}
	}
}

// drained waits until everything that was accepted is handled, and a little longer for what should not come.
func drained(ctx context.Context, ledger *Ledger, limit time.Duration) error {
	for deadline := time.Now().Add(limit); !ledger.Ended() || ledger.Handled() < ledger.Accepted(); {
		if time.Now().After(deadline) {
			return fmt.Errorf("not handled within %s: %w", limit, ledger.Verify())
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return pause(ctx, linger)
}

func between(from, to mark, mode Mode) (f Figures) {
	jobs, seconds := to.handled-from.handled, to.at.Sub(from.at).Seconds()
	if mode == Single {
		jobs = to.submitted - from.submitted
	}
	f.JobsPerSecond = float64(jobs) / seconds
	if jobs > 0 {
		f.CPUPerJob = (to.cpu - from.cpu) / time.Duration(jobs)
	}
	return f
}

// finish ends the processes, judges, and adds what they have measured themselves.
func (r run) finish(f Figures) (Figures, error) {
	latency, calls := NewHistogram(), NewHistogram()
	words, err := r.end()
	if err != nil {
		return Figures{}, err
	}
	for _, last := range words {
		if err := errors.Join(merge(latency, last.Latency), merge(calls, last.Calls)); err != nil {
			return Figures{}, err
		}
	}
	f.Jobs = r.ledger.Accepted()
	f.LeastHandled, f.MostHandled = r.ledger.Spread(r.Stage.Workers)
	timed := latency
	if r.Stage.Mode == Single {
		timed = calls
	}
	if r.Stage.Mode != Flood {
		f.P50, f.P99 = quantile(timed, 50), quantile(timed, 99)
	}
	return f, nil
}

// end ends the processes, the last started first, and judges what was handled.
func (r run) end() (words []word, err error) {
	var errs []error
	for _, p := range slices.Backward(r.cast) {
		last, err := p.stop()
		words, errs = append(words, last), append(errs, err)
	}
	return words, errors.Join(append(errs, r.ledger.Verify())...)
}

func merge(into *hdrhistogram.Histogram, raw []byte) error {
	from, err := decode(raw)
	if err != nil {
		return err
	}
	if dropped := into.Merge(from); dropped > 0 {
		return fmt.Errorf("%d values of a histogram are out of range", dropped)
	}
	return nil
}

func quantile(h *hdrhistogram.Histogram, percent float64) time.Duration {
	return time.Duration(h.ValueAtQuantile(percent))
}
