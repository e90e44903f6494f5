package postgres_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/postgres"
	"github.com/workpulling/workpulling/runtime/queue/postgres/postgrestest"
	"github.com/workpulling/workpulling/runtime/queue/queuetest"
)

func TestMain(m *testing.M) {
	// Each step of the random model is some round trips to a server, so there are fewer walks than in memory.
	if err := flag.Set("rapid.checks", "15"); err != nil {
		panic(err)
	}
	code := postgrestest.Main(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// places makes a place for each test: new flows in one database.
func places(t *testing.T, open func(options postgres.Options) (queue.WorkQueue, error)) func(testing.TB, queuetest.Options) queuetest.Place {
	server := postgrestest.Shared(t)
	url := server.URL(server.Database(t))
	var count atomic.Int64
	return func(t testing.TB, options queuetest.Options) queuetest.Place {
		place := fmt.Sprintf("%d/", count.Add(1))
		return queuetest.Place{Open: func(flow string) (queue.WorkQueue, error) {
			return open(postgres.Options{
				ConnString: url, FlowUID: place + flow, DeduplicationWindow: options.DeduplicationWindow, Clock: options.Clock,
			})
		}}
	}
}

// The whole contract (B-040…B-060).
func TestContract(t *testing.T) {
	queuetest.Run(t, queuetest.Backend{New: places(t, func(o postgres.Options) (queue.WorkQueue, error) {
		return postgres.New(t.Context(), o)
	})})
}

// pair is two handles of one flow, as two processes have them; each call goes to the other of the two than the call before.
type pair struct {
	queues [2]*postgres.Queue
	turn   atomic.Int64
}

func (p *pair) next() *postgres.Queue { return p.queues[p.turn.Add(1)%2] }

func (p *pair) Load(ctx context.Context, owner string, visit func(queue.Row) error) (queue.State, queue.Epoch, error) {
	return p.next().Load(ctx, owner, visit)
}

func (p *pair) Apply(ctx context.Context, epoch queue.Epoch, batch queue.Batch) (queue.Result, error) {
	return p.next().Apply(ctx, epoch, batch)
}

func (p *pair) ReadJobs(ctx context.Context, seqs []int64) ([]protocol.Job, error) {
	return p.next().ReadJobs(ctx, seqs)
}

func (p *pair) Lookup(ctx context.Context, messageID string) (queue.JobState, bool, error) {
	return p.next().Lookup(ctx, messageID)
}

func (p *pair) ListDeadLetters(ctx context.Context, after int64, limit int) ([]queue.DeadLetter, error) {
	return p.next().ListDeadLetters(ctx, after, limit)
}

func (p *pair) Redrive(ctx context.Context, epoch queue.Epoch, ref queue.JobRef, audit string) (queue.Row, error) {
	return p.next().Redrive(ctx, epoch, ref, audit)
}

func (p *pair) Drop(ctx context.Context, epoch queue.Epoch, ref queue.JobRef, audit string) error {
	return p.next().Drop(ctx, epoch, ref, audit)
}

func (p *pair) Compact(ctx context.Context, epoch queue.Epoch, limit int) (int, error) {
	return p.next().Compact(ctx, epoch, limit)
}

func (p *pair) Owner(ctx context.Context) (queue.Owner, error) { return p.next().Owner(ctx) }

func (p *pair) Close() error { return errors.Join(p.queues[0].Close(), p.queues[1].Close()) }

// The whole contract with two processes that take turns: what one wrote the other sees at once, and what one loaded the other may
// write under (B-059, G-120, G-135).
func TestContractOfTwoProcesses(t *testing.T) {
	queuetest.Run(t, queuetest.Backend{New: places(t, func(o postgres.Options) (queue.WorkQueue, error) {
		p := &pair{}
		for i := range p.queues {
			q, err := postgres.New(t.Context(), o)
			if err != nil {
				return nil, err
			}
			p.queues[i] = q
		}
		return p, nil
	})})
}
