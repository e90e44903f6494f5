package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/workpulling/workpulling/test/bench/internal/postgresserver"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// River is a job queue in PostgreSQL, which its clients share.
type River struct{}

const (
	toldDatabase = "database"
	// riverRunners are the handlers of one client at a time, and so the jobs that one fetch brings: with a window's worth of 50 a client
	// fetches too often.
	riverRunners = 500
	// riverCooldown is the shortest pause between two fetches that River allows; its default of 100 ms bounds the throughput.
	riverCooldown = time.Millisecond
)

// Name implements trial.System.
func (*River) Name() string { return "river" }

// Settings implements trial.System.
func (*River) Settings() string {
	return fmt.Sprintf("River's client in both processes, jobs inserted with COPY by InsertManyFast, completed in batches; %d runners a worker, "+
		"fetch cooldown %s; %s", riverRunners, riverCooldown, postgresserver.Settings())
}

// Available implements trial.System.
func (*River) Available() error { return postgresserver.Available() }

// Processes implements trial.System.
func (*River) Processes(s *trial.Stage) []trial.Process {
	return append([]trial.Process{{Name: "database", Serve: []string{"database"}}}, trial.TwoProcesses(s)...)
}

// Serve implements trial.System.
func (*River) Serve(ctx context.Context, s *trial.Stage, _ string) (func() error, error) {
	stop, err := postgresserver.Serve(ctx, s, toldDatabase)
	if err != nil {
		return nil, err
	}
	pool, err := openPool(ctx, s)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: silent()})
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("making the tables: %w", err), stop())
	}
	return stop, nil
}

func silent() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func openPool(ctx context.Context, s *trial.Stage) (*pgxpool.Pool, error) {
	url, err := s.Told(toldDatabase)
	if err != nil {
		return nil, err
	}
	return pgxpool.New(ctx, url)
}

// riverArgs is a job.
type riverArgs struct {
	Payload []byte `json:"p"`
}

// Kind implements river.JobArgs.
func (riverArgs) Kind() string { return "bench" }

// Produce implements trial.System.
func (*River) Produce(ctx context.Context, s *trial.Stage) (trial.Submitter, error) {
	pool, err := openPool(ctx, s)
	if err != nil {
		return nil, err
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: silent()})
	if err != nil {
		return nil, err
	}
	return &riverSubmitter{client, pool}, nil
}

type riverSubmitter struct {
	client *river.Client[pgx.Tx]
	pool   *pgxpool.Pool
}

// Pace implements trial.Submitter.
func (*riverSubmitter) Pace() trial.Pace { return trial.Pace{Callers: 2, Batch: 1000} }

// Close implements trial.Submitter.
func (r *riverSubmitter) Close() error {
	r.pool.Close()
	return nil
}

// Submit implements trial.Submitter.
func (r *riverSubmitter) Submit(ctx context.Context, jobs []trial.Job) error {
	if len(jobs) == 1 {
		_, err := r.client.Insert(ctx, riverArgs{jobs[0].Payload}, nil)
		return err
	}
	params := make([]river.InsertManyParams, len(jobs))
	for i, j := range jobs {
		params[i] = river.InsertManyParams{Args: riverArgs{j.Payload}}
	}
	_, err := r.client.InsertManyFast(ctx, params)
	return err
}

// riverWorker handles jobs.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]

	handle func([]byte)
}

// Work implements river.Worker.
func (w *riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error {
	w.handle(job.Args.Payload)
	return nil
}

// Consume implements trial.System.
func (*River) Consume(ctx context.Context, s *trial.Stage, worker int, handle func([]byte)) (func() error, error) {
	pool, err := openPool(ctx, s)
	if err != nil {
		return nil, err
	}
	known := river.NewWorkers()
	river.AddWorker(known, &riverWorker{handle: handle})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		ID: fmt.Sprintf("worker-%d", worker), Logger: silent(), Workers: known, FetchCooldown: riverCooldown, FetchPollInterval: 100 * time.Millisecond,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: riverRunners}},
	})
	if err != nil {
		return nil, err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	return func() error {
		defer pool.Close()
		limited, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return client.Stop(limited)
	}, nil
}
