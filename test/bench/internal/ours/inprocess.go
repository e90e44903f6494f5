package ours

import (
	"context"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// InProcess is producer and workers in one process, whose streams are channels.
type InProcess struct {
	Backend Backend
	flow    *flow
}

// Name implements trial.System.
func (p *InProcess) Name() string { return "inprocess-" + string(p.Backend) }

// Settings implements trial.System.
func (p *InProcess) Settings() string { return "one process; " + p.Backend.settings() }

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
	queue, err := p.Backend.open(ctx, s, "")
	if err != nil {
		return nil, err
	}
	p.flow = startFlow(ctx, queue)
	return p.flow.stop, nil
}

// Produce implements trial.System.
func (p *InProcess) Produce(context.Context, *trial.Stage) (trial.Submitter, error) {
	return submitter{producer: p.flow.Producer, pace: trial.Pace{Callers: 8, Batch: 64}}, nil
}

// Consume implements trial.System.
func (p *InProcess) Consume(ctx context.Context, s *trial.Stage, worker int, handle func([]byte)) (func() error, error) {
	return startWorker(ctx, s, worker, handle, func(ctx context.Context) (endpoint.Stream, error) {
		return pipe(ctx, p.flow.Service(), "pod:"+uidOf(worker)), nil
	})
}
