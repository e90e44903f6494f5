package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/lane"
)

var (
	// ErrNotDurable: the server runs with fsync off, so what it calls committed may be gone after a crash. Retriable: a person can
	// switch it on.
	ErrNotDurable = errors.New("postgres queue: the server runs with fsync off")
	// ErrConnectionString: the connection string cannot be parsed. It is not shown, because it may hold a password.
	ErrConnectionString = errors.New("postgres queue: the connection string cannot be parsed (not shown: it may hold a password)")

	errClosed = errors.New("postgres queue: closed")
)

const (
	// Format is the version of the tables that this build writes, and the newest that it reads. New migrates older ones; newer
	// ones are refused with queue.ErrUnsupportedFormat and left as they are, so a downgrade across a format change needs an
	// empty queue or a way back.
	Format = 2

	// DefaultSchema is the database schema where Options.Schema is empty.
	DefaultSchema = "workpulling"

	// minConnections lets a visitor of Load read while another caller reads and the lane waits.
	minConnections = 4
)

// Options of a PostgreSQL queue.
type Options struct {
	// ConnString is a URL or a list of key=value pairs as libpq takes it, passwords and TLS settings included; the environment's
	// PG… variables fill what it leaves out. Required. Connect directly or through a pooler in session mode.
	ConnString string
	// FlowUID is the UID of the flow, the key of its rows. Required.
	FlowUID string
	// Schema holds the tables of all flows that share the database. Empty means DefaultSchema. New creates what is missing.
	Schema string
	// MaxConnections bounds the pool of this process. Zero means what ConnString says (pool_max_conns), and at least 4.
	MaxConnections int
	// DeduplicationWindow is how long a settled id is remembered at least. Zero means that Compact forgets at once.
	DeduplicationWindow time.Duration
	// Clock is the wall clock; nil means the server's. It dates rows and ages tombstones, nothing else.
	Clock func() time.Time
	// Random makes the flow's secret and the writer's marks; nil means crypto/rand.Reader.
	Random io.Reader
}

// Queue is the durable back-end on a shared database. See queue.WorkQueue for its methods.
type Queue struct {
	pool   *pgxpool.Pool
	sql    statements
	flow   int32 // the key of the flow's rows
	clock  func() time.Time
	random io.Reader
	hide   concealer
	window atomic.Int64

	lane   *lane.Lane[deed] // held during a Load
	memory *memory          // of the holder of the lane; nil before the first transaction
	wary   int              // how many transactions look for the ids that they store

	remembered int // how many transactions rested on memory

	mu   sync.Mutex // guards mark
	mark mark       // of the last Load of this process
}

var (
	_ queue.WorkQueue     = (*Queue)(nil)
	_ queue.Deduplicating = (*Queue)(nil)
	_ queue.OrphanKeeper  = (*Queue)(nil)
	_ queue.Auditor       = (*Queue)(nil)
	_ queue.Shared        = (*Queue)(nil)
)

// New connects, creates or migrates the tables, and returns the queue of one flow. Its errors wrap ErrConnectionString,
// queue.ErrUnsupportedFormat or queue.ErrConflict; all others are retriable, also ErrNotDurable.
func New(ctx context.Context, options Options) (_ *Queue, err error) {
	if err := protocol.CheckID("flow UID", options.FlowUID); err != nil {
		return nil, err
	}
	pool, hide, err := connect(ctx, options)
	if err != nil {
		return nil, err
	}
	q := &Queue{
		pool: pool, hide: hide, sql: statementsIn(cmp.Or(options.Schema, DefaultSchema)),
		clock: options.Clock, random: options.Random,
	}
	q.lane = lane.New(errClosed, lane.Backend[deed]{Transact: q.run, Apart: refused})
	if q.random == nil {
		q.random = rand.Reader
	}
	q.SetDeduplicationWindow(options.DeduplicationWindow)
	if err := q.prepare(ctx, cmp.Or(options.Schema, DefaultSchema), options.FlowUID); err != nil {
		pool.Close()
		return nil, fmt.Errorf("opening the queue in PostgreSQL: %w", q.explain(ctx, err))
	}
	return q, nil
}

// prepare makes the tables and the flow's row.
func (q *Queue) prepare(ctx context.Context, schema, flowUID string) error {
	if err := migrate(ctx, q.pool, schema); err != nil {
		return err
	}
	secret, err := queue.NewSecret(q.random)
	if err != nil {
		return err
	}
	if _, err := q.pool.Exec(ctx, q.sql.addFlow, flowUID, secret[:]); err != nil {
		return fmt.Errorf("adding the flow: %w", err)
	}
	if err := q.pool.QueryRow(ctx, q.sql.findFlow, flowUID).Scan(&q.flow); err != nil {
		return fmt.Errorf("finding the flow: %w", err)
	}
	return nil
}

// Continue implements queue.Successor: the mark of former's Load tells its data from a copy, and from any other at the same epoch.
func (q *Queue) Continue(former queue.WorkQueue) {
	if former, ok := former.(*Queue); ok {
		former.mu.Lock()
		loaded := former.mark
		former.mu.Unlock()
		q.mu.Lock()
		q.mark = loaded
		q.mu.Unlock()
	}
}

// SetDeduplicationWindow implements queue.Deduplicating.
func (q *Queue) SetDeduplicationWindow(window time.Duration) { q.window.Store(int64(window)) }

// Close implements queue.WorkQueue. It waits for a transaction that is under way; what is still waiting ends with an error.
func (q *Queue) Close() error {
	if q.lane.Close() {
		q.pool.Close()
	}
	return nil
}
