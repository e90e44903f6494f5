package queue

import (
	"context"
	"errors"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
)

var (
	// ErrFenced: the epoch is not the newest. Terminal for the incarnation that holds it (G-124, G-162).
	ErrFenced = errors.New("queue: fenced by a newer epoch")
	// ErrConflict: the store contradicts the caller or itself: a cursor that is not the store's, a never-issued id or
	// sequence, corrupt rows. Terminal for the incarnation (G-125, G-128, B-054).
	ErrConflict = errors.New("queue: conflict")
	// ErrUnsupportedFormat: the data were written by a newer format version; nothing was touched.
	ErrUnsupportedFormat = errors.New("queue: unsupported format version")
	// ErrFull: the store takes no new jobs for now, because its volume has no room left, or it is read-only. Unlike after other retriable
	// errors nothing of the batch was written, nor ever will be. What stores nothing new may pass all the same.
	ErrFull = errors.New("queue: full")
	// ErrNotFound: no such dead letter.
	ErrNotFound = errors.New("queue: not found")
)

// Terminal reports whether no repeat can heal err for the incarnation that got it (G-162).
func Terminal(err error) bool {
	return errors.Is(err, ErrFenced) || errors.Is(err, ErrConflict) || errors.Is(err, ErrUnsupportedFormat)
}

// An error that wraps protocol.ErrInvalid is the caller's fault (a job that breaks a limit): nothing was changed and a repeat
// cannot help (G-134). Every other error is retriable: the operation may or may not have happened, and repeating it is safe.

// Epoch is one generation of writer, positive, issued by Load. Zero is never valid.
type Epoch uint64

// Digest is the SHA-256 that tells whether a repeated MessageID came with the same bytes (headers that matter and payload).
type Digest [32]byte

// JobRef names a job in Accept, Confirm, RecordAttempt and DeadLetter. Both fields must be those that Store returned: a pair
// whose id is gone but whose sequence is at or below the cursor is a repeat after compaction and a no-op (G-X07, B-049), and so is
// one whose id was stored anew since, under a higher sequence; a sequence below 1 or above the cursor was never issued and is a
// conflict, as is an id that is held under a lower sequence or a sequence that is held by another id.
type JobRef struct {
	MessageID string
	StoreSeq  int64
}

// StoreRequest proposes one job.
type StoreRequest struct {
	Job    protocol.Job
	Digest Digest
}

// StoreResult is the authoritative answer to one StoreRequest, in request order.
type StoreResult struct {
	StoreSeq int64
	Verdict  protocol.StoreVerdict
}

// AttemptRecord writes the counters of one job: Attempts are counted tries, Uncounted are deliveries that ended before the
// handler started. Values never decrease; a lower value is ignored, and so is a record of a job that is settled
// or dead-lettered.
type AttemptRecord struct {
	JobRef
	Attempts  int
	Uncounted int
	// LastReason is a short text for people, cut to protocol.MaxReasonBytes. It becomes the reason of a DeadLetterRequest without one.
	LastReason string
}

// DeadLetterRequest moves a job to the dead letters; repeating it is a no-op, and so is dead-lettering a settled job.
// A later Confirm of a dead letter settles it as confirmed: proof that the handler finished beats suspicion.
type DeadLetterRequest struct {
	JobRef
	Attempts int
	Reason   string
}

// Batch is one atomic, durable write. Its parts are applied in the order of the fields, so a job may be stored, accepted
// and confirmed in one batch. All or nothing: any error leaves the store unchanged.
type Batch struct {
	// Cursor is the append cursor as the caller knows it; required if Stores holds a new id. Another value than the store's is
	// then ErrConflict (G-125, B-044). New ids get Cursor+1, Cursor+2, … in order; known ids use up nothing and ignore Cursor
	// (G-126, B-045), so repeating a batch whose answer was lost is safe.
	Cursor      int64
	Stores      []StoreRequest
	Accepts     []JobRef
	Attempts    []AttemptRecord
	DeadLetters []DeadLetterRequest
	Confirms    []JobRef
	// Workers replaces the recorded worker incarnations (State.Workers), unless it is nil. An empty list records that there are none.
	// It is a hint for the next Load, never authority; a volatile queue may forget it.
	Workers []protocol.Incarnation
}

// Empty reports whether the batch would write nothing.
func (b Batch) Empty() bool {
	return len(b.Stores)+len(b.Accepts)+len(b.Attempts)+len(b.DeadLetters)+len(b.Confirms) == 0 && b.Workers == nil
}

// Result answers a Batch: Stores in request order, and the cursor after it.
type Result struct {
	Cursor int64
	Stores []StoreResult
}

// Row is one stored, unsettled job as Load reports it, without its payload.
type Row struct {
	JobRef
	PayloadBytes int
	Accepted     bool
	Attempts     int
	Uncounted    int
	StoredAt     time.Time // wall clock of the writer, for people and for oldest-age figures only
}

// State is what Load restores besides the rows.
type State struct {
	Cursor      int64
	DeadLetters int64
	// Lost counts the jobs that a volatile queue forgot at earlier restarts, if it can know; always 0 for a durable one.
	Lost int64
	// Format is the version of the data's format; 0 where nothing is written.
	Format uint64
	// Secret is random, made by the first Load of these data and the same ever after: the key of delivery tickets, and
	// what tells these data from others of the same flow. It leaves the process of the writer only as a MAC. Data that were
	// written before there was a secret get one with the next Load.
	Secret Secret
	// Workers are the incarnations that Batch.Workers recorded last.
	Workers []protocol.Incarnation
}

// DeadLetter is one job kept for a person to decide on.
type DeadLetter struct {
	JobRef
	PayloadBytes int
	Attempts     int
	Reason       string
	Since        time.Time
}

// JobState is what a look-up by MessageID finds.
type JobState struct {
	StoreSeq int64
	// Status is one of StatusStored, StatusConfirmed, StatusDeadLettered, StatusDropped.
	Status   string
	Attempts int
	Accepted bool
	Digest   Digest
	// Reason is why it is a dead letter, else empty.
	Reason string
}

// Values of JobState.Status.
const (
	StatusStored       = "stored"
	StatusConfirmed    = "confirmed"
	StatusDeadLettered = "dead-lettered"
	// StatusDropped is a dead letter that a person dropped: a tombstone. Its resubmission is answered AlreadyDeadLettered, because
	// no handler ever finished it (I-8).
	StatusDropped = "dropped"
)

// WorkQueue is the durable store of one flow. All methods are linearizable and safe for concurrent use; each ends at its
// context's deadline with a retriable error (B-057). Values that it returns share nothing with its own state (G-133), and
// it keeps no reference to a caller's payload after it has returned.
//
// An operation that was given up, because its context ended, its connection broke or its process died, may still take effect,
// however late; but only before anything else takes effect on these data, or never. A back-end whose operations run in another
// process must see to it: a transaction that holds the flow's row before it sends its commit does, a write that is sent in one
// piece needs a number that the store compares. Without that rule a write that timed out could undo what a person decided about
// its job since, which neither the epoch nor the cursor would notice.
type WorkQueue interface {
	// Load takes exclusive writership and reads the state in one step: every stored, unsettled row, accepted or not,
	// goes to visit in ascending sequence. owner is recorded for people and forwarding. An error from visit, or any other
	// error, leaves ownership as it was (G-122, B-042); only an error of the final commit itself is ambiguous, and the next
	// Load resolves it. visit may read from the queue but must not write to it.
	Load(ctx context.Context, owner string, visit func(Row) error) (State, Epoch, error)

	// Apply writes one batch under an epoch (Store, Accept, RecordAttempt, DeadLetter, Confirm of the contract).
	Apply(ctx context.Context, epoch Epoch, batch Batch) (Result, error)

	// ReadJobs returns the stored jobs of the given sequences in that order; a sequence that is settled or unknown yields a
	// Job with an empty MessageID. It needs no epoch: the first write never changes.
	ReadJobs(ctx context.Context, seqs []int64) ([]protocol.Job, error)

	// Lookup finds a job by id, tombstones included; ok is false for an id that was never stored or is forgotten.
	Lookup(ctx context.Context, messageID string) (state JobState, ok bool, err error)

	// ListDeadLetters returns at most limit dead letters with a sequence above after, ascending.
	ListDeadLetters(ctx context.Context, after int64, limit int) ([]DeadLetter, error)

	// Redrive puts a dead letter back among the stored jobs with its attempts reset; audit says who and why. ErrNotFound if it is none.
	Redrive(ctx context.Context, epoch Epoch, ref JobRef, audit string) (Row, error)

	// Drop settles a dead letter for good (a tombstone remains); audit says who and why. ErrNotFound if it is none.
	Drop(ctx context.Context, epoch Epoch, ref JobRef, audit string) error

	// Compact removes tombstones that are older than the deduplication window, oldest first, at most limit of them, and returns
	// how many. The window starts at the later of confirm and accept. A confirmed, never accepted row keeps its id. An id is
	// forgotten by Compact alone: the window is the least time that it is remembered, the next Compact after it the end.
	Compact(ctx context.Context, epoch Epoch, limit int) (int, error)

	// Close releases the store. It does not give up the epoch.
	Close() error
}
