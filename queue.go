package workpulling

import (
	"context"
	"time"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/local"
	"github.com/workpulling/workpulling/runtime/queue/memory"
	"github.com/workpulling/workpulling/runtime/queue/postgres"
)

// Queue opens the store of a flow, in which settled IDs are remembered for window at least. Memory, Local and PostgreSQL make one; any
// other has to pass the suite of package runtime/queue/queuetest.
type Queue func(ctx context.Context, flow string, window time.Duration) (queue.WorkQueue, error)

// Memory keeps jobs until the process ends: "stored" survives a worker, and nothing else.
func Memory() Queue {
	return func(_ context.Context, _ string, window time.Duration) (queue.WorkQueue, error) {
		return memory.New(memory.Options{DeduplicationWindow: window})
	}
}

// Local keeps jobs in a directory, which one process has open at a time: "stored" means synced to the disk.
func Local(dir string) Queue {
	return func(ctx context.Context, flow string, window time.Duration) (queue.WorkQueue, error) {
		return local.Open(ctx, local.Options{Dir: dir, FlowUID: flow, DeduplicationWindow: window})
	}
}

// PostgreSQL keeps jobs in a database: "stored" means committed. dsn is a URL or a list of key=value pairs. A second producer of the same flow
// takes the queue over, and the first one ends with a FailedError.
func PostgreSQL(dsn string) Queue {
	return func(ctx context.Context, flow string, window time.Duration) (queue.WorkQueue, error) {
		return postgres.New(ctx, postgres.Options{ConnString: dsn, FlowUID: flow, DeduplicationWindow: window})
	}
}
