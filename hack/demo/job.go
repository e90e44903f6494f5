package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/workpulling/workpulling/test/harness"
)

// job is one run of the main job: documents are submitted and processed while things are killed.
type job struct {
	kubectl   *harness.Kubectl
	submitter *harness.Submitter
	effects   *harness.Effects
	total     int
	chaos     []disturbance

	printed   time.Duration
	submitted harness.Progress
	summary   harness.EffectSummary
	killed    []string
}

const (
	// tick is the time between two looks: short, so that every disturbance falls into the middle of a fast run.
	tick = 400 * time.Millisecond
	// linesEvery is the time between two lines of progress.
	linesEvery = 2 * time.Second
)

// watch submits the documents, prints what goes on, kills what is due, and returns when every document has its effect.
func (j *job) watch(ctx context.Context) (took time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	progress := make(chan harness.Progress)
	ended := make(chan error, 1)
	go func() {
		_, err := j.submitter.Submit(ctx, func(p harness.Progress) {
			select {
			case progress <- p:
			case <-ctx.Done():
			}
		})
		ended <- err
	}()
	start := time.Now()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return 0, explain(ctx, j.kubectl, fmt.Errorf("not finished in time: %d of %d documents have their effect: %w", j.summary.Effects, j.total, ctx.Err()))
		case j.submitted = <-progress:
		case err := <-ended:
			if err != nil {
				return 0, err
			}
			ended = nil
		case <-ticker.C:
			if err := j.look(ctx, time.Since(start)); err != nil {
				return 0, err
			}
			if ended == nil && j.summary.Effects >= j.total {
				return time.Since(start), nil
			}
			if err := j.disturb(ctx); err != nil {
				return 0, err
			}
		}
	}
}

// flowStatus is the part of a flow that the demo shows.
type flowStatus struct {
	Status struct {
		Backlog     *int64 `json:"backlog"`
		InFlight    *int64 `json:"inFlight"`
		Workers     *int32 `json:"workers"`
		DeadLetters *int64 `json:"deadLetters"`
	} `json:"status"`
}

// look reads how far the job is, and now and then prints it. A store of effects that does not answer is shown, not fatal.
func (j *job) look(ctx context.Context, since time.Duration) error {
	summary, err := j.effects.Summary(ctx, j.submitter.Source)
	if command := (*harness.CommandError)(nil); errors.As(err, &command) && ctx.Err() == nil {
		fmt.Println("  the store of effects does not answer")
		return nil
	} else if err != nil {
		return err
	}
	j.summary = summary
	if since-j.printed < linesEvery && summary.Effects < j.total {
		return nil
	}
	j.printed = since
	var f flowStatus
	if err := j.kubectl.JSON(ctx, &f, "-n", namespace, "get", "workpullingflow", flow); err != nil {
		return err
	}
	fmt.Printf("  %4.0f s  accepted %5d/%d  backlog %5s  in flight %4s  effects %5d  run again %4d  workers %s\n", since.Seconds(),
		j.submitted.Accepted, j.total, count(f.Status.Backlog), count(f.Status.InFlight), summary.Effects,
		summary.Started-summary.Jobs, count(f.Status.Workers))
	return nil
}

// count prints a number that may be unknown.
func count[T int32 | int64](n *T) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprint(*n)
}

// disturb does what is due at this point of the job, one thing a tick.
func (j *job) disturb(ctx context.Context) error {
	if len(j.chaos) == 0 || float64(j.summary.Effects) < j.chaos[0].at*float64(j.total) {
		return nil
	}
	next := j.chaos[0]
	j.chaos = j.chaos[1:]
	fmt.Printf("  ── %s\n", next.what)
	if err := next.do(ctx, j.kubectl); err != nil {
		return fmt.Errorf("%s: %w", next.what, err)
	}
	j.killed = append(j.killed, next.what)
	return nil
}
