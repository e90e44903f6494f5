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
	complete  bool // the last line said that every effect is there
	counters  harness.Counters
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
	if err := j.counters.Read(ctx, j.kubectl, namespace, flow); err != nil {
		return 0, err
	}
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

// look reads how far the job is, and now and then prints it. Effects that cannot be read are shown, not fatal.
func (j *job) look(ctx context.Context, since time.Duration) error {
	summary, err := j.effects.Summary(ctx, j.submitter.Source)
	if command := (*harness.CommandError)(nil); errors.As(err, &command) && ctx.Err() == nil {
		fmt.Println("  the store of effects does not answer")
		return nil
	} else if err != nil {
		return err
	}
	j.summary = summary
	complete := summary.Effects >= j.total
	if since-j.printed < linesEvery && complete == j.complete {
		return nil
	}
	j.printed, j.complete = since, complete
	remark := ""
	if err := j.counters.Read(ctx, j.kubectl, namespace, flow); err != nil {
		remark = "  (the producer does not answer)"
	}
	c := j.counters
	// What is accepted and neither waits nor is held is confirmed; a counter of the producer would end with its process.
	confirmed := max(float64(j.submitted.Accepted)-c.Backlog-c.InFlight, 0)
	fmt.Printf("  %3.0f s  accepted %5d/%d  backlog %4.0f  in flight %3.0f  confirmed %5.0f  redelivered %3.0f  effects %5d  workers %.0f%s\n",
		since.Seconds(), j.submitted.Accepted, j.total, c.Backlog, c.InFlight, confirmed, c.Redelivered.Value(),
		summary.Effects, c.Workers, remark)
	return nil
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
