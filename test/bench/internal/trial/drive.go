package trial

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms reach from a microsecond to a minute with three digits.
const (
	lowest  = int64(time.Microsecond)
	highest = int64(time.Minute)
	digits  = 3
)

// NewHistogram returns an empty one, in nanoseconds.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(lowest, highest, digits) }

// record takes one duration; what is out of range counts as its bound.
func record(h *hdrhistogram.Histogram, nanoseconds int64) {
	_ = h.RecordValue(min(max(nanoseconds, lowest), highest)) // only fails out of range
}

// driver makes the load of one trial.
type driver struct {
	stage  *Stage
	ledger *Ledger
	to     Submitter
	calls  *hdrhistogram.Histogram // of Single: from the call to its return
}

var errFull = errors.New("the ledger has no room for more jobs: measure for a shorter time")

// drive waits for the trial to run, and submits until it ends.
func (d *driver) drive(ctx context.Context) error {
	defer d.ledger.EndProducing()
	for d.ledger.Phase() == Preparing {
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	switch d.stage.Mode {
	case Flood:
		return d.flood(ctx)
	case Paced:
		return d.paced(ctx)
	case Single:
		return d.single(ctx)
	}
	return fmt.Errorf("there is no mode %q", d.stage.Mode)
}

// submit hands in n jobs that the schedule wants sent at sendAt and, one after the other, every interval later.
func (d *driver) submit(ctx context.Context, n int, sendAt, interval int64) error {
	first, ok := d.ledger.Take(n)
	if !ok {
		return errFull
	}
	jobs := make([]Job, n)
	for i := range jobs {
		jobs[i] = MakeJob(first+uint64(i), sendAt+int64(i)*interval, d.stage.PayloadBytes)
	}
	if err := d.to.Submit(ctx, jobs); err != nil {
		return fmt.Errorf("submitting: %w", err)
	}
	d.ledger.Accept(n)
	return nil
}

// flood keeps every caller busy, with at most so many jobs under way as the stage says.
func (d *driver) flood(ctx context.Context) error {
	pace := d.to.Pace()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var callers sync.WaitGroup
	for range max(pace.Callers, 1) {
		callers.Go(func() {
			for d.ledger.Phase() < Ending && ctx.Err() == nil {
				if d.ledger.Submitted()-d.ledger.Handled() > d.stage.backlog() {
					_ = pause(ctx, 200*time.Microsecond)
					continue
				}
				if err := d.submit(ctx, max(pace.Batch, 1), 0, 0); err != nil {
					cancel(err)
				}
			}
		})
	}
	callers.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// paced submits what is due, each time in a call of its own that nothing waits for, so that a slow call delays no other.
func (d *driver) paced(ctx context.Context) error {
	interval := int64(time.Second) / int64(max(d.stage.Rate, 1))
	batch := max(d.to.Pace().Batch, 1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var calls sync.WaitGroup
	next := Monotonic()
	for d.ledger.Phase() == Running && ctx.Err() == nil {
		now := Monotonic()
		if now < next {
			_ = pause(ctx, time.Duration(next-now))
			continue
		}
		due := min(int((now-next)/interval)+1, batch)
		at := next
		calls.Go(func() {
			if err := d.submit(ctx, due, at, interval); err != nil {
				cancel(err)
			}
		})
		next += int64(due) * interval
	}
	calls.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// single submits one job after the other and times each call.
func (d *driver) single(ctx context.Context) error {
	for d.ledger.Phase() == Running && ctx.Err() == nil {
		began := Monotonic()
		if err := d.submit(ctx, 1, 0, 0); err != nil {
			return err
		}
		if _, ok := d.ledger.Measures(began); ok {
			record(d.calls, Monotonic()-began)
		}
	}
	return nil
}

// pause waits; the context's error says that it ended first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
