package local

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/lane"
)

var (
	// ErrLocked: another process holds the directory. Retriable: it may end soon. The text of an error that wraps it names that process
	// where it is known.
	ErrLocked = errors.New("local queue: the directory is in use by another process")
	// ErrOtherFlow: the directory holds the jobs of another flow. Nothing was touched.
	ErrOtherFlow = errors.New("local queue: the directory belongs to another flow")

	errClosed = errors.New("local queue: closed")
)

const (
	// Format is the version of the data that this build writes, and the newest that it reads. A build reads every older format;
	// it refuses a newer one with queue.ErrUnsupportedFormat and leaves it as it is, so a downgrade across a format change needs
	// an empty queue or a way back.
	Format = 2
	// oldestFormat had no journal. Opening makes the data those of this format.
	oldestFormat = 1

	// DefaultLockWait is how long Open waits for the directory where Options.LockWait is zero.
	DefaultLockWait = 10 * time.Second

	// mostRows bounds a layer, and so the heap.
	mostRows = 64 << 10

	fileName    = "queue.db"
	journalName = "queue.log"
	lockName    = "queue.lock"
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
	// Holder names this process to one that is kept out of the directory meanwhile, in at most 256 bytes on one line; longer ones are cut.
	// Empty means its number and its host.
	Holder string

	half     int64 // bytes of half a new journal; zero means a share of the volume
	mostRows int   // zero means mostRows
}

// Queue is the durable back-end on one volume. See queue.WorkQueue for its methods.
type Queue struct {
	db     *bolt.DB
	space  *space
	lock   *dirLock
	clock  func() time.Time
	random io.Reader
	window atomic.Int64

	lane     *lane.Lane[deed] // held during a Load
	journal  *journal         // of the lane's holder, as what follows
	record   []byte           // is used again, as is
	rows     []row
	settling *settling // nil if nothing is frozen
	mostRows int
	perRow   int64 // bytes that a row touched in the last piece; the settling's
	doubtful bool  // a group that went to the tree at once failed, and may show there

	mu     sync.RWMutex // guards which layers there are and what they hold; only the holder of the lane adds to the active one
	active *layer
	frozen *layer // nil, or on its way to the tree

	gate     func() error // tests make commits hang or fail here; nil otherwise
	treeGate func() error // and the tree's here
	treeSync func() error // and the last sync of the tree's here
}

var (
	_ queue.WorkQueue     = (*Queue)(nil)
	_ queue.Deduplicating = (*Queue)(nil)
	_ queue.OrphanKeeper  = (*Queue)(nil)
	_ queue.Auditor       = (*Queue)(nil)
	_ queue.Roomy         = (*Queue)(nil)
)

// Open opens or creates the queue of one flow. Its errors wrap ErrLocked, ErrOtherFlow, queue.ErrUnsupportedFormat or
// queue.ErrConflict (a damaged file); all others are the system's own.
func Open(ctx context.Context, options Options) (*Queue, error) {
	if options.Dir == "" || options.FlowUID == "" {
		return nil, errors.New("local queue: Dir and FlowUID are required")
	}
	q := &Queue{clock: options.Clock, random: options.Random, mostRows: cmp.Or(options.mostRows, mostRows), perRow: firstRow}
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
	if q.lock, err = lockDir(ctx, filepath.Join(options.Dir, lockName), cmp.Or(options.Holder, thisProcess()), options.LockWait); err != nil {
		return err
	}
	path, journal := filepath.Join(options.Dir, fileName), filepath.Join(options.Dir, journalName)
	makeJournal := func() (journalShape, error) { return createJournal(journal, options.half, q.random) }
	if q.db, err = openFile(path, options.FlowUID, makeJournal); err != nil {
		return errors.Join(err, q.lock.release())
	}
	if q.space, err = openSpace(path, q.db.Info().PageSize); err != nil {
		return errors.Join(err, q.db.Close(), q.lock.release())
	}
	if err := guarded(func() error { return q.recover(journal) }); err != nil {
		return errors.Join(err, q.release())
	}
	return nil
}

// recover makes layers of what the journal holds and the tree does not.
func (q *Queue) recover(path string) error {
	var shape journalShape
	var mark journalMark
	if err := q.db.View(func(tx *bolt.Tx) error {
		t, err := openTable(tx)
		if err == nil {
			q.active = newLayer(t.state)
			shape, mark, err = t.journal()
		}
		return err
	}); err != nil {
		return err
	}
	var err error
	if q.journal, err = openJournal(path, shape); err != nil {
		return err
	}
	frozen, err := q.replay(mark)
	if err != nil {
		return err
	}
	if err := q.journal.secure(); err != nil {
		return fmt.Errorf("securing the journal: %w", err)
	}
	if err := q.space.measure(q.db); err != nil {
		return err
	}
	q.space.hold(reserve(q.active.state) - q.room())
	if q.frozen != nil {
		q.settle(frozen)
	}
	return nil
}

// replay reads the generation after a mark, and the next one, if it was begun: then the first is frozen, and its end returned.
func (q *Queue) replay(mark journalMark) (journalMark, error) {
	if _, err := q.journal.replay(mark, q.remember); err != nil {
		return mark, err
	}
	first, next := q.active, *q.journal
	end := next.turn()
	q.active = newLayer(first.state)
	groups, err := next.replay(end, q.remember)
	if err != nil || groups == 0 {
		q.active = first
		return end, err
	}
	*q.journal, q.frozen = next, first
	return end, nil
}

func (q *Queue) remember(fields []byte) error {
	c, err := decodeChanges(fields)
	if err != nil {
		return fmt.Errorf("%w: damaged journal: %w", queue.ErrConflict, err)
	}
	q.active.add(c)
	return nil
}

// SetDeduplicationWindow implements queue.Deduplicating.
func (q *Queue) SetDeduplicationWindow(window time.Duration) { q.window.Store(int64(window)) }

// Close implements queue.WorkQueue. It waits for a commit that is under way; what is still waiting ends with an error. Then it brings the
// tree up to date, so that the journal is empty for whoever opens the queue next; if it cannot, the journal still has it all.
func (q *Queue) Close() error {
	if !q.lane.Close() {
		return nil
	}
	_ = q.drain()
	return q.release()
}

func (q *Queue) release() error {
	var err error
	if q.journal != nil {
		err = q.journal.close()
	}
	return errors.Join(err, q.db.Close(), q.space.close(), q.lock.release())
}
