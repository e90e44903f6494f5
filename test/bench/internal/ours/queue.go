package ours

import (
	"context"
	"fmt"
	"time"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/local"
	"github.com/workpulling/workpulling/runtime/queue/memory"
	"github.com/workpulling/workpulling/runtime/queue/postgres"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// Backend is a kind of WorkQueue.
type Backend string

const (
	Memory     Backend = "memory"
	Local      Backend = "local"
	PostgreSQL Backend = "postgres"
)

// deduplication is the default of a flow.
const deduplication = 600 * time.Second

const flowUID = "bench"

func (b Backend) settings() string {
	switch b {
	case Local:
		return "Local queue: every job fsynced before Stored"
	case PostgreSQL:
		return "PostgreSQL queue: every job committed before Stored"
	default:
		return "Memory queue"
	}
}

// open opens an empty queue of the trial. databaseURL is where PostgreSQL is.
func (b Backend) open(ctx context.Context, s *trial.Stage, databaseURL string) (queue.WorkQueue, error) {
	switch b {
	case Memory:
		return memory.New(memory.Options{DeduplicationWindow: deduplication})
	case Local:
		return local.Open(ctx, local.Options{Dir: s.Path("queue"), FlowUID: flowUID, DeduplicationWindow: deduplication})
	case PostgreSQL:
		return postgres.New(ctx, postgres.Options{ConnString: databaseURL, FlowUID: flowUID, DeduplicationWindow: deduplication})
	}
	return nil, fmt.Errorf("there is no queue %q", b)
}
