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
	"github.com/workpulling/workpulling/runtime/queue/flowtest"
	"github.com/workpulling/workpulling/runtime/queue/postgres"
	"github.com/workpulling/workpulling/runtime/queue/postgres/postgrestest"
	"github.com/workpulling/workpulling/runtime/queue/queuetest"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

func TestMain(m *testing.M) {
	// Each step of the random model is some round trips to a server, so there are fewer walks than in memory.
	if err := flag.Set("rapid.checks", "8"); err != nil {
		panic(err)
	}
	code := postgrestest.Main(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// places makes a place for each test: new flows in one database, reached through a proxy that can hang.
func places(t *testing.T, open func(options postgres.Options) (queue.WorkQueue, error)) func(testing.TB, queuetest.Options) queuetest.Place {
	server := postgrestest.Shared(t)
	database := server.Database(t)
	proxy := transporttest.NewProxy(t, server.Address())
	var count atomic.Int64
	return func(t testing.TB, options queuetest.Options) queuetest.Place {
		place := fmt.Sprintf("%d/", count.Add(1))
		optionsOf := func(flow string) postgres.Options {
			return postgres.Options{
				ConnString: postgrestest.URLAt(proxy.Address(), database), FlowUID: place + flow,
				DeduplicationWindow: options.DeduplicationWindow, Clock: options.Clock,
			}
		}
		return queuetest.Place{
			Open: func(flow string) (queue.WorkQueue, error) { return open(optionsOf(flow)) },
			Damage: func(flow string, damage queuetest.Damage) bool {
				q := opened(t, optionsOf(flow))
				defer q.Close()
				return spoil(t, q, damage)
			},
			Hang: func(queue.WorkQueue) func() {
				proxy.Freeze()
				return proxy.Thaw
			},
		}
	}
}

func opened(t testing.TB, options postgres.Options) *postgres.Queue {
	t.Helper()
	q, err := postgres.New(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	return q
}

// spoil damages the second of three rows.
func spoil(t testing.TB, q *postgres.Queue, damage queuetest.Damage) bool {
	t.Helper()
	edit := func(assignment string) bool {
		if err := postgres.Edit(t.Context(), q, 2, assignment); err != nil {
			t.Fatal(err)
		}
		return true
	}
	raw := func(sql string) bool {
		if err := postgres.Exec(t.Context(), q, sql, postgres.Key(q)); err != nil {
			t.Fatal(err)
		}
		return true
	}
	switch damage {
	case queuetest.DuplicateID:
		return false // the ids have a table of their own, with a unique index
	case queuetest.SequenceZero:
		return edit("seq = 0")
	case queuetest.SequenceAboveCursor:
		return edit("seq = 4")
	case queuetest.EmptyPayload:
		return edit("payload_bytes = 0")
	case queuetest.FlippedBit:
		return raw(`UPDATE workpulling.jobs SET digest = set_bit(digest, 77, 1 - get_bit(digest, 77)) WHERE flow = $1 AND seq = 2`)
	case queuetest.MissingRow:
		return raw(`DELETE FROM workpulling.jobs WHERE flow = $1 AND seq = 2`)
	}
	return false
}

// The whole contract (B-040…B-060).
func TestContract(t *testing.T) {
	queuetest.Run(t, queuetest.Backend{New: places(t, func(o postgres.Options) (queue.WorkQueue, error) {
		return postgres.New(t.Context(), o)
	})})
}

// Whole flows over the database; who takes over has a handle of its own, as another process has (B.2, B.4, B.14).
func TestFlow(t *testing.T) {
	flowtest.Run(t, queuetest.Backend{New: places(t, func(o postgres.Options) (queue.WorkQueue, error) {
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
