package ledger

import (
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// Status says where a job stands. The values are part of the on-disk format of queue/local: never renumber them.
type Status uint8

// The life of an entry: Stored, then DeadLettered and back by a redrive, then for good one of Confirmed and Dropped.
const (
	Stored       Status = 1
	DeadLettered Status = 2
	Confirmed    Status = 3
	Dropped      Status = 4
)

// String is the value of queue.JobState.Status.
func (s Status) String() string {
	switch s {
	case Stored:
		return queue.StatusStored
	case DeadLettered:
		return queue.StatusDeadLettered
	case Confirmed:
		return queue.StatusConfirmed
	case Dropped:
		return queue.StatusDropped
	}
	return "unknown"
}

// Entry is all that a store knows about one id except the job's bytes.
type Entry struct {
	queue.JobRef
	Digest       queue.Digest
	Status       Status
	Accepted     bool
	Attempts     int
	Uncounted    int
	PayloadBytes int
	// Reason is the last attempt's reason, or why the job is among the dead letters; at most protocol.MaxReasonBytes.
	Reason   string
	StoredAt time.Time
	// Since is when a dead letter became one, or when the deduplication window of a tombstone started. It is zero otherwise,
	// also for a tombstone that still waits for its Accept.
	Since time.Time
}

// Settled tells whether the job is over for good: what remains is a tombstone without payload.
func (e Entry) Settled() bool { return e.Status == Confirmed || e.Status == Dropped }

// Aging tells whether the deduplication window of the entry runs, so that Compact will remove it one day.
func (e Entry) Aging() bool { return e.Settled() && e.Accepted }

// Expired tells whether an aging entry has outlived the deduplication window.
func (e Entry) Expired(now time.Time, window time.Duration) bool {
	return e.Aging() && !now.Before(e.Since.Add(window))
}

// Row is the entry as Load reports it.
func (e Entry) Row() queue.Row {
	return queue.Row{
		JobRef: e.JobRef, PayloadBytes: e.PayloadBytes, Accepted: e.Accepted,
		Attempts: e.Attempts, Uncounted: e.Uncounted, StoredAt: e.StoredAt,
	}
}

// DeadLetter is the entry as ListDeadLetters reports it.
func (e Entry) DeadLetter() queue.DeadLetter {
	return queue.DeadLetter{
		JobRef: e.JobRef, PayloadBytes: e.PayloadBytes, Attempts: e.Attempts, Reason: e.Reason, Since: e.Since,
	}
}

// State is the entry as Lookup reports it.
func (e Entry) State() queue.JobState {
	state := queue.JobState{
		StoreSeq: e.StoreSeq, Status: e.Status.String(), Attempts: e.Attempts, Accepted: e.Accepted, Digest: e.Digest,
	}
	if e.Status == DeadLettered {
		state.Reason = e.Reason
	}
	return state
}

// Orphan is the entry as ListOrphans reports it.
func (e Entry) Orphan() queue.Orphan {
	return queue.Orphan{JobRef: e.JobRef, Status: e.Status.String(), StoredAt: e.StoredAt}
}

// verdict answers a repeated submission of the entry's id.
func (e Entry) verdict(digest queue.Digest) protocol.StoreVerdict {
	switch {
	case e.Digest != digest:
		return protocol.BodyMismatch
	case e.Status == Confirmed:
		return protocol.AlreadyConfirmed
	case e.Status == Stored:
		return protocol.AlreadyStored
	}
	return protocol.AlreadyDeadLettered
}

// accept records that the producer has forgotten the job; it reports whether that was news.
func (e *Entry) accept(now time.Time) bool {
	if e.Accepted {
		return false
	}
	e.Accepted = true
	if e.Settled() {
		e.Since = now
	}
	return true
}

// settle turns the entry into a tombstone; it reports whether that was news.
func (e *Entry) settle(as Status, now time.Time) bool {
	if e.Settled() {
		return false
	}
	e.Status, e.PayloadBytes, e.Reason, e.Since = as, 0, "", time.Time{}
	if e.Accepted {
		e.Since = now
	}
	return true
}

// attempt raises the counters; it reports whether one rose.
func (e *Entry) attempt(r queue.AttemptRecord) bool {
	if e.Status != Stored || (r.Attempts <= e.Attempts && r.Uncounted <= e.Uncounted) {
		return false
	}
	e.Attempts, e.Uncounted = max(e.Attempts, r.Attempts), max(e.Uncounted, r.Uncounted)
	e.Reason = CutText(r.LastReason)
	return true
}

// bury moves a stored entry to the dead letters; it reports whether that was news.
func (e *Entry) bury(r queue.DeadLetterRequest, now time.Time) bool {
	if e.Status != Stored {
		return false
	}
	e.Status, e.Since, e.Attempts = DeadLettered, now, max(e.Attempts, r.Attempts)
	if r.Reason != "" {
		e.Reason = CutText(r.Reason)
	}
	return true
}
