package producer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/local"
	"github.com/workpulling/workpulling/runtime/queue/memory"
)

// errClosed and errNotOpen are retriable, as everything is that is not one of the queue's own errors.
var (
	errClosed  = errors.New("the queue is closed")
	errNotOpen = errors.New("the queue is not open yet")
)

// volume is a WorkQueue that opens its back-end with the first Load and tries again with each: a missing or locked volume is
// then a load that fails and recovers, visible in the flow's status, and no crash loop.
type volume struct {
	open func(ctx context.Context, window time.Duration) (queue.WorkQueue, error)
	// version tells what open would open; another one than before is opened anew. nil: it is always the same.
	version func() string
	// shared says that other processes can open it too.
	shared bool
	// lockedOut knows whether another process has the volume; nil where none can.
	lockedOut *lockedOut

	loading sync.Mutex // one opens at a time
	mu      sync.Mutex
	back    queue.WorkQueue
	window  time.Duration
	closed  bool
	opening string // the version that is open
	loaded  string // the owner argument of the last Load that succeeded
	refused refusal
}

// refusal is a version that cannot be opened while the one before works on.
type refusal struct {
	version string
	cause   error
	at      time.Time
}

// refusalStands is how long a refused version is not tried again: it may be a password, and too many wrong ones lock a user out.
const refusalStands = 10 * time.Second

var (
	_ queue.WorkQueue = (*volume)(nil)
	_ queue.Immediate = (*volume)(nil)
)

// newVolume returns the queue that the document asks for, unopened.
func newVolume(o Options, document runtimeconfig.Producer) (*volume, error) {
	v := &volume{window: deduplication(document)}
	if o.OpenQueue != nil {
		v.open, v.shared = o.OpenQueue, document.QueueType == queuePostgreSQL
		return v, nil
	}
	switch document.QueueType {
	case queueLocal, "":
		v.lockedOut = &lockedOut{log: o.Log.WithName("volume"), now: time.Now} //nolint:forbidigo // pacing of the log
		v.open = func(ctx context.Context, window time.Duration) (queue.WorkQueue, error) {
			back, err := local.Open(ctx, local.Options{
				Dir: o.DataDir, FlowUID: document.FlowUID, DeduplicationWindow: window, Holder: holder(o),
			})
			v.lockedOut.opened(err)
			if err != nil {
				return nil, err
			}
			return back, nil
		}
	case queueMemory:
		v.open = func(_ context.Context, window time.Duration) (queue.WorkQueue, error) {
			return memory.New(memory.Options{DeduplicationWindow: window, LossFile: o.LossFile})
		}
	case queuePostgreSQL:
		v.openPostgreSQL(o, document)
	default:
		return nil, fmt.Errorf("queue type %q is not known to this version of the sidecar", document.QueueType)
	}
	return v, nil
}

// holder names this process to one that finds the volume locked. A pod and the one that takes its place have one name and two UIDs.
func holder(o Options) string {
	if o.PodName == "" {
		return ""
	}
	name := "pod " + o.PodName + " of UID " + o.Incarnation.PodUID
	if o.NodeName != "" {
		name += " on node " + o.NodeName
	}
	return name
}

// locked says that another process has the volume.
func (v *volume) locked() bool { return v.lockedOut != nil && v.lockedOut.holds() }

// current returns the open back-end.
func (v *volume) current() (queue.WorkQueue, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.closed:
		return nil, errClosed
	case v.back == nil:
		return nil, errNotOpen
	}
	return v.back, nil
}

// Immediate implements queue.Immediate.
func (v *volume) Immediate() bool {
	back, err := v.current()
	return err == nil && queue.IsImmediate(back)
}

// setWindow changes the deduplication window, now or when the back-end opens.
func (v *volume) setWindow(window time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.window = window
	if back, ok := v.back.(queue.Deduplicating); ok {
		back.SetDeduplicationWindow(window)
	}
}

// opened returns the back-end, after opening it if need be.
func (v *volume) opened(ctx context.Context) (queue.WorkQueue, error) {
	v.loading.Lock()
	defer v.loading.Unlock()
	version := ""
	if v.version != nil {
		version = v.version()
	}
	former, err := v.current()
	if err == nil && version == v.opening || errors.Is(err, errClosed) {
		v.refuse(refusal{})
		return former, err
	}
	v.mu.Lock()
	window, refused := v.window, v.refused
	v.mu.Unlock()
	now := time.Now() //nolint:forbidigo // pacing of attempts
	if former != nil && refused.version == version && now.Sub(refused.at) < refusalStands {
		return former, nil
	}
	back, err := v.open(ctx, window)
	if err != nil && former != nil {
		if ctx.Err() == nil {
			v.refuse(refusal{version: version, cause: err, at: now})
		}
		return former, nil // what worked so far may go on working
	}
	if err != nil {
		return nil, fmt.Errorf("opening the queue: %w", err)
	}
	if !v.exchange(back, version, window) {
		return nil, errors.Join(errClosed, back.Close())
	}
	if former != nil {
		// What is under way there fails and is tried again. Its end may take as long as the slowest of it, and holds up nobody else.
		_ = former.Close()
	}
	return back, nil
}

// exchange puts a back-end in the place of the one before; false means that the volume is closed.
func (v *volume) exchange(back queue.WorkQueue, version string, window time.Duration) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return false
	}
	if next, ok := back.(queue.Successor); ok && v.back != nil {
		next.Continue(v.back)
	}
	if again, ok := back.(queue.Deduplicating); ok && v.window != window {
		again.SetDeduplicationWindow(v.window)
	}
	v.back, v.opening, v.refused = back, version, refusal{}
	return true
}

func (v *volume) refuse(r refusal) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refused = r
}

// caution says why the newest version is not the one in use. Empty means that it is.
func (v *volume) caution() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.refused.cause == nil {
		return ""
	}
	return "the changed connection does not work, and the one before is still in use: " + v.refused.cause.Error()
}

// Load implements queue.WorkQueue.
func (v *volume) Load(ctx context.Context, owner string, visit func(queue.Row) error) (queue.State, queue.Epoch, error) {
	back, err := v.opened(ctx)
	if err != nil {
		return queue.State{}, 0, err
	}
	if !v.shared {
		return back.Load(ctx, owner, visit)
	}
	// A writer that lost its connection for a while loads again when that is back. Another may have taken over by then, and must not be
	// fenced by the one that it has replaced.
	if v.loaded == owner {
		last, err := v.Owner(ctx)
		if err != nil {
			return queue.State{}, 0, err
		}
		if last.Address != owner {
			return queue.State{}, 0, fmt.Errorf("%w: epoch %d belongs to another member", queue.ErrFenced, last.Epoch)
		}
	}
	state, epoch, err := back.Load(ctx, owner, visit)
	if err == nil {
		v.loaded = owner
	}
	return state, epoch, err
}

// errNotShared says that a back-end has no notion of an owner.
var errNotShared = errors.New("the queue belongs to one process")

// Owner implements queue.Shared; it opens the queue if need be.
func (v *volume) Owner(ctx context.Context) (queue.Owner, error) {
	back, err := v.opened(ctx)
	if err != nil {
		return queue.Owner{}, err
	}
	if shared, ok := back.(queue.Shared); ok {
		return shared.Owner(ctx)
	}
	return queue.Owner{}, errNotShared
}

// Apply implements queue.WorkQueue.
func (v *volume) Apply(ctx context.Context, epoch queue.Epoch, batch queue.Batch) (queue.Result, error) {
	back, err := v.current()
	if err != nil {
		return queue.Result{}, err
	}
	return back.Apply(ctx, epoch, batch)
}

// ReadJobs implements queue.WorkQueue.
func (v *volume) ReadJobs(ctx context.Context, seqs []int64) ([]protocol.Job, error) {
	back, err := v.current()
	if err != nil {
		return nil, err
	}
	return back.ReadJobs(ctx, seqs)
}

// Lookup implements queue.WorkQueue.
func (v *volume) Lookup(ctx context.Context, messageID string) (queue.JobState, bool, error) {
	back, err := v.current()
	if err != nil {
		return queue.JobState{}, false, err
	}
	return back.Lookup(ctx, messageID)
}

// ListDeadLetters implements queue.WorkQueue.
func (v *volume) ListDeadLetters(ctx context.Context, after int64, limit int) ([]queue.DeadLetter, error) {
	back, err := v.current()
	if err != nil {
		return nil, err
	}
	return back.ListDeadLetters(ctx, after, limit)
}

// Redrive implements queue.WorkQueue.
func (v *volume) Redrive(ctx context.Context, epoch queue.Epoch, ref queue.JobRef, audit string) (queue.Row, error) {
	back, err := v.current()
	if err != nil {
		return queue.Row{}, err
	}
	return back.Redrive(ctx, epoch, ref, audit)
}

// Drop implements queue.WorkQueue.
func (v *volume) Drop(ctx context.Context, epoch queue.Epoch, ref queue.JobRef, audit string) error {
	back, err := v.current()
	if err != nil {
		return err
	}
	return back.Drop(ctx, epoch, ref, audit)
}

// Compact implements queue.WorkQueue.
func (v *volume) Compact(ctx context.Context, epoch queue.Epoch, limit int) (int, error) {
	back, err := v.current()
	if err != nil {
		return 0, err
	}
	return back.Compact(ctx, epoch, limit)
}

// errNotKept: the back-end keeps no such record.
var errNotKept = errors.New("this queue keeps no such record")

var (
	_ queue.OrphanKeeper = (*volume)(nil)
	_ queue.Auditor      = (*volume)(nil)
)

// backAs returns the open back-end as one of the optional interfaces.
func backAs[T any](v *volume) (T, error) {
	var none T
	back, err := v.current()
	if err != nil {
		return none, err
	}
	as, ok := back.(T)
	if !ok {
		return none, errNotKept
	}
	return as, nil
}

// ListOrphans implements queue.OrphanKeeper.
func (v *volume) ListOrphans(ctx context.Context, before time.Time, after int64, limit int) ([]queue.Orphan, error) {
	back, err := backAs[queue.OrphanKeeper](v)
	if err != nil {
		return nil, err
	}
	return back.ListOrphans(ctx, before, after, limit)
}

// AcceptOrphan implements queue.OrphanKeeper.
func (v *volume) AcceptOrphan(ctx context.Context, epoch queue.Epoch, ref queue.JobRef, audit string) error {
	back, err := backAs[queue.OrphanKeeper](v)
	if err != nil {
		return err
	}
	return back.AcceptOrphan(ctx, epoch, ref, audit)
}

// ListAudit implements queue.Auditor.
func (v *volume) ListAudit(ctx context.Context, after uint64, limit int) ([]queue.AuditLine, error) {
	back, err := backAs[queue.Auditor](v)
	if err != nil {
		return nil, err
	}
	return back.ListAudit(ctx, after, limit)
}

// Close implements queue.WorkQueue.
func (v *volume) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	if v.back == nil {
		return nil
	}
	return v.back.Close()
}
