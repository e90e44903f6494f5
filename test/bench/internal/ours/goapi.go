package ours

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/workpulling/workpulling"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// program is a producer that a Go program runs.
type program struct {
	*workpulling.Producer
	stop func() error
}

// runProducer runs a producer until stop is called.
func runProducer(ctx context.Context, options workpulling.ProducerOptions) (*program, error) {
	producer, err := workpulling.NewProducer(options)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- producer.Run(ctx) }()
	return &program{producer, sync.OnceValue(func() error {
		cancel()
		return <-ended
	})}, nil
}

// Pace implements trial.Submitter: more at once brings nothing, and a commit of a durable queue takes what has come meanwhile.
func (*program) Pace() trial.Pace { return trial.Pace{Callers: 4, Batch: 256} }

// Close implements trial.Submitter; the producer ends with its role.
func (*program) Close() error { return nil }

// Submit implements trial.Submitter. Jobs that are refused for want of credit are submitted again.
func (p *program) Submit(ctx context.Context, jobs []trial.Job) error {
	batch := make([]workpulling.Job, len(jobs))
	for i, j := range jobs {
		batch[i] = workpulling.Job{ID: j.ID(), Payload: j.Payload}
	}
	for len(batch) > 0 {
		var again []workpulling.Job
		for i, result := range p.SubmitBatch(ctx, batch...) {
			if _, busy := errors.AsType[*workpulling.BackPressureError](result.Err); busy {
				again = append(again, batch[i])
			} else if result.Err != nil {
				return result.Err
			}
		}
		batch = again
	}
	return nil
}

// runWorker runs a worker whose handler does nothing but the account.
func runWorker(ctx context.Context, s *trial.Stage, number int, handle func([]byte), flow workpulling.Flow, identity workpulling.Identity) (func() error, error) {
	identity.Name = uidOf(number)
	worker, err := workpulling.NewWorker(func(_ context.Context, d workpulling.Delivery) error {
		handle(d.Payload)
		return nil
	}, workpulling.WorkerOptions{Flows: []workpulling.Flow{flow}, Identity: identity, Window: s.Window, DrainTimeout: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}, nil
}

func uidOf(worker int) string { return fmt.Sprintf("worker-%d", worker) }

// queueOf is the queue of a back-end as the Go API names it.
func (b Backend) queueOf(s *trial.Stage, databaseURL string) workpulling.Queue {
	switch b {
	case Local:
		return workpulling.Local(s.Path("queue"))
	case PostgreSQL:
		return workpulling.PostgreSQL(databaseURL)
	default:
		return workpulling.Memory()
	}
}
