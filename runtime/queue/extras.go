package queue

import (
	"context"
	"time"
)

// The interfaces here are optional: a back-end that has the notion implements them, and callers ask with a type assertion.
// queuetest runs their part of the suite for every back-end that does.

// Deduplicating is implemented by back-ends whose deduplication window can change while they run.
type Deduplicating interface {
	// SetDeduplicationWindow takes effect with the next Compact, also for tombstones that are already there. 0 and below mean
	// that Compact forgets every settled and accepted id at once.
	SetDeduplicationWindow(window time.Duration)
}

// Immediate is implemented by back-ends that may write within microseconds: hosts call Apply between two events then, and not beside them.
type Immediate interface {
	// Immediate says whether Apply waits for nothing but other writers of this process, no disk and no network.
	Immediate() bool
}

// IsImmediate asks a back-end; one that does not know the notion is not.
func IsImmediate(q WorkQueue) bool {
	immediate, ok := q.(Immediate)
	return ok && immediate.Immediate()
}

// Roomy is implemented by back-ends that can tell, without storing one, whether a new job would find room.
type Roomy interface {
	// HasRoom returns ErrFull while Apply would refuse even a small new job with it.
	HasRoom(ctx context.Context, epoch Epoch) error
}

// Owner says who loaded last.
type Owner struct {
	// Epoch is the newest that was issued; 0 before the first Load.
	Epoch Epoch
	// Address is the owner argument of that Load.
	Address string
}

// Shared is implemented by back-ends that several processes can open at once: a standby asks who the writer is, to forward to it.
type Shared interface {
	// Owner reads the newest epoch and who holds it. It is a hint: the next Load may already be under way.
	Owner(ctx context.Context) (Owner, error)
}

// Successor is implemented by back-ends that a writer at work can open anew: over another way, or as another user of the same store.
type Successor interface {
	// Continue makes this back-end write as former did: under its epoch, in the data that former loaded and in no other, whatever epoch
	// that other data is at. former is a back-end of the same kind, and closed soon.
	Continue(former WorkQueue)
}

// Orphan is a job whose producer never said StoredAck.
type Orphan struct {
	JobRef
	// Status is one of StatusStored, StatusConfirmed, StatusDeadLettered, StatusDropped.
	Status   string
	StoredAt time.Time
}

// OrphanKeeper reports orphans and lets a person end one (G-X16, B-060). Nothing else ever removes the id of an orphan.
type OrphanKeeper interface {
	// ListOrphans returns at most limit never accepted jobs that were stored before the given time, with a sequence above
	// after, ascending. It may read every row: it is for people and reports, not for a job's path.
	ListOrphans(ctx context.Context, before time.Time, after int64, limit int) ([]Orphan, error)

	// AcceptOrphan records a person's word that the producer has forgotten the job, as Accept would; audit says who and why.
	// An unsettled job stays and runs; a settled one starts its deduplication window. ErrNotFound if it is no orphan.
	AcceptOrphan(ctx context.Context, epoch Epoch, ref JobRef, audit string) error
}

// MaxAuditLines bounds the audit trail; the oldest lines go first.
const MaxAuditLines = 10_000

// AuditLine is one deed of a person: a redrive, a drop or an accepted orphan.
type AuditLine struct {
	// Number counts from 1 and is never reused.
	Number uint64
	At     time.Time
	// Action is one of AuditRedrive, AuditDrop, AuditAcceptOrphan.
	Action string
	JobRef
	// Text is what the caller gave, cut to protocol.MaxReasonBytes.
	Text string
}

// Values of AuditLine.Action.
const (
	AuditRedrive      = "redrive"
	AuditDrop         = "drop"
	AuditAcceptOrphan = "accept-orphan"
)

// Auditor is implemented by back-ends that keep the audit lines of Redrive, Drop and AcceptOrphan.
type Auditor interface {
	// ListAudit returns at most limit lines with a number above after, ascending.
	ListAudit(ctx context.Context, after uint64, limit int) ([]AuditLine, error)
}
