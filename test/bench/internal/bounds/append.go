package bounds

import (
	"context"
	"errors"

	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// Append is a bare append and fdatasync of each submission, with the worker in the same process: what one durable submit costs at least.
type Append struct {
	log  *commitLog
	jobs chan trial.Job
}

// Name implements trial.System.
func (*Append) Name() string { return "append" }

// Settings implements trial.System.
func (*Append) Settings() string {
	return "one process; each submission appended to a file and fdatasynced; no queue"
}

// Available implements trial.System.
func (*Append) Available() error { return nil }

// Processes implements trial.System.
func (*Append) Processes(*trial.Stage) []trial.Process {
	return []trial.Process{{Name: "all", Serve: []string{"log"}, Workers: []int{0}, Produces: true}}
}

// Serve implements trial.System.
func (a *Append) Serve(_ context.Context, s *trial.Stage, _ string) (stop func() error, err error) {
	a.jobs = make(chan trial.Job, trial.Backlog)
	if a.log, err = openLog(s.Path("log")); err != nil {
		return nil, err
	}
	return a.log.close, nil
}

// Consume implements trial.System.
func (a *Append) Consume(_ context.Context, _ *trial.Stage, _ int, handle func([]byte)) (func() error, error) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case j := <-a.jobs:
				handle(j.Payload)
			case <-over:
				return
			}
		}
	}()
	return func() error {
		close(over)
		<-ended
		return nil
	}, nil
}

// Produce implements trial.System.
func (a *Append) Produce(context.Context, *trial.Stage) (trial.Submitter, error) { return a, nil }

// Pace implements trial.Submitter.
func (*Append) Pace() trial.Pace { return trial.Pace{Callers: 8, Batch: 64} }

// Close implements trial.Submitter.
func (*Append) Close() error { return nil }

// Submit implements trial.Submitter.
func (a *Append) Submit(ctx context.Context, jobs []trial.Job) error {
	records := make([]*pb.Delivery, len(jobs))
	for i, j := range jobs {
		records[i] = &pb.Delivery{Job: &pb.Job{Payload: j.Payload}}
	}
	if err := <-a.log.append(records); err != nil {
		return err
	}
	for _, j := range jobs {
		select {
		case a.jobs <- j:
		case <-ctx.Done():
			return errors.Join(errors.New("the worker takes no jobs"), ctx.Err())
		}
	}
	return nil
}
