package ours

import (
	"context"

	"github.com/workpulling/workpulling"
	"github.com/workpulling/workpulling/test/bench/internal/postgresserver"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// Direct is a producing app and workers that link the Go API, in processes of their own over loopback gRPC.
type Direct struct {
	Backend Backend
	program *program
}

// Name implements trial.System.
func (d *Direct) Name() string { return "direct-" + string(d.Backend) }

// Settings implements trial.System.
func (d *Direct) Settings() string {
	text := "Go API, producer and workers in two processes, gRPC over loopback with TLS 1.3; " + d.Backend.settings()
	if d.Backend == PostgreSQL {
		text += "; " + postgresserver.Settings()
	}
	return text
}

// Available implements trial.System.
func (d *Direct) Available() error {
	if d.Backend == PostgreSQL {
		return postgresserver.Available()
	}
	return nil
}

// Names of what is told from process to process.
const (
	toldAddress  = "address"
	toldDatabase = "database"
	secretDir    = "secret"
)

// Processes implements trial.System.
func (d *Direct) Processes(s *trial.Stage) []trial.Process {
	processes := trial.TwoProcesses(s, "flow")
	if d.Backend == PostgreSQL {
		processes = append([]trial.Process{{Name: "database", Serve: []string{"database"}}}, processes...)
	}
	return processes
}

// Serve implements trial.System.
func (d *Direct) Serve(ctx context.Context, s *trial.Stage, role string) (func() error, error) {
	if role == "database" {
		return postgresserver.Serve(ctx, s, toldDatabase)
	}
	url := ""
	if d.Backend == PostgreSQL {
		var err error
		if url, err = s.Told(toldDatabase); err != nil {
			return nil, err
		}
	}
	var err error
	d.program, err = runProducer(ctx, workpulling.ProducerOptions{
		Queue: d.Backend.queueOf(s, url), Listen: "127.0.0.1:0", SharedSecret: s.Path(secretDir),
		BacklogJobs: max(1_000_000, 2*s.Backlog), BacklogBytes: max(1<<30, 2*int64(s.Backlog)*int64(s.PayloadBytes)),
		DeduplicationWindow: s.Deduplication,
	})
	if err != nil {
		return nil, err
	}
	return d.program.stop, s.Tell(toldAddress, d.program.Address())
}

// Produce implements trial.System.
func (d *Direct) Produce(context.Context, *trial.Stage) (trial.Submitter, error) {
	return d.program, nil
}

// Consume implements trial.System.
func (d *Direct) Consume(ctx context.Context, s *trial.Stage, worker int, handle func([]byte)) (func() error, error) {
	address, err := s.Told(toldAddress)
	if err != nil {
		return nil, err
	}
	return runWorker(ctx, s, worker, handle, workpulling.Flow{Address: address}, workpulling.SharedSecret(s.Path(secretDir), uidOf(worker)))
}
