package worker

import (
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/sidecar/running"
)

// runningSet is where the handlers in progress are remembered.
type runningSet interface {
	endpoint.RunningSet
	Close() error
}

// nowhere remembers nothing.
type nowhere struct{ endpoint.RunningSet }

func (nowhere) Close() error { return nil }

func openRunning(path string) (runningSet, []endpoint.LeftRun, error) {
	if path == "" {
		return nowhere{endpoint.Forgetful}, nil, nil
	}
	file, left, err := running.Open(path)
	if err != nil {
		return nil, nil, err
	}
	return file, left, nil
}
