package peers

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// Asynq is a job queue in Redis.
type Asynq struct{}

const (
	redisProgram = "redis-server"
	redisSocket  = "redis.sock"
	asynqKind    = "bench"
)

// redisSettings are the durable ones that are recommended: a log that is synced every second.
var redisSettings = []string{"--appendonly", "yes", "--appendfsync", "everysec", "--save", ""}

// Name implements trial.System.
func (*Asynq) Name() string { return "asynq" }

// Settings implements trial.System.
func (*Asynq) Settings() string {
	version := "Redis"
	if said, err := exec.Command(redisProgram, "--version").Output(); err == nil { //nolint:noctx // it ends at once
		version, _, _ = strings.Cut(strings.TrimSpace(string(said)), " sha=")
	}
	return "asynq's client and server over a private server on a Unix socket (" + version + "), append-only file synced every second; one enqueue " +
		"a job, 64 at once; a window's worth of handlers a worker"
}

// Available implements trial.System.
func (*Asynq) Available() error {
	if _, err := exec.LookPath(redisProgram); err != nil {
		return errors.New("there is no Redis here: hack/setup.sh bench")
	}
	return nil
}

// Processes implements trial.System.
func (*Asynq) Processes(s *trial.Stage) []trial.Process {
	return append([]trial.Process{{Name: "redis", Serve: []string{"redis"}}}, trial.TwoProcesses(s)...)
}

// Serve implements trial.System.
func (*Asynq) Serve(ctx context.Context, s *trial.Stage, _ string) (func() error, error) {
	arguments := append([]string{"--port", "0", "--unixsocket", s.Path(redisSocket), "--dir", s.Dir, "--daemonize", "no"}, redisSettings...)
	server, err := startServer(exec.Command(redisProgram, arguments...)) //nolint:noctx // ended by stop
	if err != nil {
		return nil, err
	}
	client := asynq.NewClient(redisAt(s))
	defer client.Close()
	if err := server.answers(ctx, client.Ping); err != nil {
		return nil, errors.Join(err, server.stop())
	}
	return server.stop, nil
}

func redisAt(s *trial.Stage) asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Network: "unix", Addr: s.Path(redisSocket), PoolSize: 64}
}

// Produce implements trial.System.
func (*Asynq) Produce(_ context.Context, s *trial.Stage) (trial.Submitter, error) {
	return asynqSubmitter{asynq.NewClient(redisAt(s))}, nil
}

type asynqSubmitter struct{ client *asynq.Client }

// Pace implements trial.Submitter. There is no batch; callers at once share the round trips.
func (asynqSubmitter) Pace() trial.Pace { return trial.Pace{Callers: 64, Batch: 1} }

// Close implements trial.Submitter.
func (a asynqSubmitter) Close() error { return a.client.Close() }

// Submit implements trial.Submitter.
func (a asynqSubmitter) Submit(ctx context.Context, jobs []trial.Job) error {
	for _, j := range jobs {
		if _, err := a.client.EnqueueContext(ctx, asynq.NewTask(asynqKind, j.Payload)); err != nil {
			return err
		}
	}
	return nil
}

// Consume implements trial.System.
func (*Asynq) Consume(_ context.Context, s *trial.Stage, _ int, handle func([]byte)) (func() error, error) {
	server := asynq.NewServer(redisAt(s), asynq.Config{
		Concurrency: s.Window, LogLevel: asynq.FatalLevel, TaskCheckInterval: 200 * time.Millisecond, ShutdownTimeout: time.Second,
	})
	err := server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		handle(task.Payload())
		return nil
	}))
	if err != nil {
		return nil, fmt.Errorf("starting a server of asynq: %w", err)
	}
	return func() error {
		server.Shutdown()
		return nil
	}, nil
}
