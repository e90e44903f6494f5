package endpoint_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/memory"
)

// longQueue holds many rows, and rests before each thousand of them.
type longQueue struct {
	queue.WorkQueue
	thousands int
	rest      time.Duration
}

func (q longQueue) Load(ctx context.Context, owner string, visit func(queue.Row) error) (queue.State, queue.Epoch, error) {
	for n := range q.thousands * 1000 {
		if n%1000 == 0 {
			select {
			case <-ctx.Done():
				return queue.State{}, 0, ctx.Err()
			case <-time.After(q.rest):
			}
		}
		row := queue.Row{JobRef: queue.JobRef{MessageID: fmt.Sprint(n), StoreSeq: int64(n + 1)}, PayloadBytes: 1, Accepted: true}
		if err := visit(row); err != nil {
			return queue.State{}, 0, err
		}
	}
	state, epoch, err := q.WorkQueue.Load(ctx, owner, visit)
	state.Cursor = int64(q.thousands * 1000)
	return state, epoch, err
}

// A backlog may be so long that no bound on the whole load would do: one that goes on is left to go on, and one that stalls is not.
func TestALoadMayTakeAsLongAsItGoesOn(t *testing.T) {
	back, err := memory.New(memory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	for name, c := range map[string]struct {
		queue longQueue
		done  func(*flow) bool
	}{
		"many rows at a good pace": {longQueue{back, 6, 300 * time.Millisecond}, func(f *flow) bool {
			stats, err := f.producer.Stats(t.Context())
			return err == nil && stats.Phase == delivery.PhaseRunning && stats.BacklogJobs == 6000
		}},
		"a load that stalls": {longQueue{back, 1, time.Hour}, func(f *flow) bool {
			stats, err := f.producer.Stats(t.Context())
			return err == nil && stats.QueueMessage == "the queue gives no more rows, for 1s: context canceled"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t, c.queue)
			f.options.OperationTimeout = 100 * time.Millisecond
			f.start(t)
			eventually(t, name, func() bool { return c.done(f) })
		})
	}
}
