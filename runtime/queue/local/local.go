package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/lane"
)

var (
	// ErrLocked: another process holds the directory. Retriable: it may end soon.
	ErrLocked = errors.New("local queue: the directory is in use by another process")
	// ErrOtherFlow: the directory holds the jobs of another flow. Nothing was touched.
	ErrOtherFlow = errors.New("local queue: the directory belongs to another flow")

	errClosed = errors.New("local queue: closed")
)

const (
	// Format is the version of the data that this build writes, and the newest that it reads. A build reads every older format;
	// it refuses a newer one with queue.ErrUnsupportedFormat and leaves it as it is, so a downgrade across a format change needs
	// an empty queue or a way back.
	Format = 1

	// DefaultLockWait is how long Open waits for the directory where Options.LockWait is zero.
	DefaultLockWait = 10 * time.Second

	fileName = "queue.db"
	lockName = "queue.lock"
)

// Options of a local queue.
type Options struct {
	// Dir is a directory on a volume of one flow. It is created if absent. Required.
	Dir string
	// FlowUID is the UID of the flow: data of another flow is refused. Required.
	FlowUID string
	// DeduplicationWindow is how long a settled id is remembered at least. Zero means that Compact forgets at once.
	DeduplicationWindow time.Duration
	// Clock is the wall clock; nil means time.Now. It dates rows and ages tombstones, nothing else.
	Clock func() time.Time
	// Random makes the secret of new data; nil means crypto/rand.Reader.
	Random io.Reader
	// LockWait bounds the wait for a process that still holds the directory; zero means DefaultLockWait, below zero no wait.
	LockWait time.Duration
}

// Queue is the durable back-end on one volume. See queue.WorkQueue for its methods.
type Queue struct {
	db     *bolt.DB
	space  *space
	lock   *dirLock
	clock  func() time.Time
	random io.Reader
	window atomic.Int64

	lane *lane.Lane[deed] // held during a Load
	// committing is a semaphore of one; holds a token from before a commit is visible until it is synced.
	committing chan struct{}

	gate func() error // tests make commits hang or fail here; nil otherwise
}

var (
	_ queue.WorkQueue     = (*Queue)(nil)
	_ queue.Deduplicating = (*Queue)(nil)
	_ queue.OrphanKeeper  = (*Queue)(nil)
	_ queue.Auditor       = (*Queue)(nil)
)

// Open opens or creates the queue of one flow. Its errors wrap ErrLocked, ErrOtherFlow, queue.ErrUnsupportedFormat or
// queue.ErrConflict (a damaged file); all others are the system's own.
func Open(ctx context.Context, options Options) (*Queue, error) {
	if options.Dir == "" || options.FlowUID == "" {
		return nil, errors.New("local queue: Dir and FlowUID are required")
	}
	q := &Queue{clock: options.Clock, random: options.Random, committing: make(chan struct{}, 1)}
	q.lane = lane.New(errClosed, lane.Backend[deed]{Transact: q.commit, Apart: func(error) bool { return true }})
	if q.clock == nil {
		q.clock = time.Now //nolint:forbidigo // the default of the injected clock
	}
	if q.random == nil {
		q.random = rand.Reader
	}
	q.SetDeduplicationWindow(options.DeduplicationWindow)
	if err := q.open(ctx, options); err != nil {
		return nil, fmt.Errorf("opening the local queue in %s: %w", options.Dir, err)
	}
	return q, nil
}

func (q *Queue) open(ctx context.Context, options Options) (err error) {
	if err := makeDir(options.Dir); err != nil {
		return err
	}
	if q.lock, err = lockDir(ctx, filepath.Join(options.Dir, lockName), options.LockWait); err != nil {
		return err
	}
	path := filepath.Join(options.Dir, fileName)
	if q.db, err = openFile(path, options.FlowUID); err != nil {
		return errors.Join(err, q.lock.release())
	}
	if q.space, err = openSpace(path, q.db.Info().PageSize); err != nil {
		return errors.Join(err, q.db.Close(), q.lock.release())
	}
	if err := q.holdReserve(); err != nil {
		return errors.Join(err, q.release())
	}
	return nil
}

func (q *Queue) holdReserve() error {
	return guarded(func() error {
		stats := q.db.Stats()
		return q.db.View(func(tx *bolt.Tx) error {
			t, err := openTable(tx)
			if err == nil {
				q.space.hold(t.reserve() - q.space.room(stats, tx))
			}
			return err
		})
	})
}

// SetDeduplicationWindow implements queue.Deduplicating.
func (q *Queue) SetDeduplicationWindow(window time.Duration) { q.window.Store(int64(window)) }

// Close implements queue.WorkQueue. It waits for a commit that is under way; what is still waiting ends with an error.
func (q *Queue) Close() error {
	if !q.lane.Close() {
		return nil
	}
	return q.release()
}

func (q *Queue) release() error { return errors.Join(q.db.Close(), q.space.close(), q.lock.release()) }
