package ours

import (
	"context"

	"github.com/workpulling/workpulling"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// InProcess is a Go program that is producer and workers at once.
type InProcess struct {
	Backend Backend
	program *program
}

// Name implements trial.System.
func (p *InProcess) Name() string { return "inprocess-" + string(p.Backend) }

// Settings implements trial.System.
func (p *InProcess) Settings() string { return "Go API, one process; " + p.Backend.settings() }

// Available implements trial.System.
func (p *InProcess) Available() error { return nil }

// Processes implements trial.System.
func (p *InProcess) Processes(s *trial.Stage) []trial.Process {
	all := make([]int, s.Workers)
	for w := range all {
		all[w] = w
	}
	return []trial.Process{{Name: "all", Serve: []string{"flow"}, Workers: all, Produces: true}}
}

// Serve implements trial.System.
func (p *InProcess) Serve(ctx context.Context, s *trial.Stage, _ string) (func() error, error) {
	var err error
	if p.program, err = runProducer(ctx, workpulling.ProducerOptions{Queue: p.Backend.queueOf(s, "")}); err != nil {
		return nil, err
	}
	return p.program.stop, nil
}

// Produce implements trial.System.
func (p *InProcess) Produce(context.Context, *trial.Stage) (trial.Submitter, error) {
	return p.program, nil
}

// Consume implements trial.System.
func (p *InProcess) Consume(ctx context.Context, s *trial.Stage, worker int, handle func([]byte)) (func() error, error) {
	return runWorker(ctx, s, worker, handle, workpulling.Flow{Producer: p.program.Producer}, workpulling.Identity{})
}
