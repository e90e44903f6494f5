package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// Batch is a checked queue.Batch without the jobs' bytes. One of Check shares no memory with the caller's, so a store may work on it
// after the caller gave up waiting.
type Batch struct {
	cursor      int64
	copied      []submission
	lent        []queue.StoreRequest // in the place of copied
	accepts     []queue.JobRef
	attempts    []queue.AttemptRecord
	deadLetters []queue.DeadLetterRequest
	confirms    []queue.JobRef
	workers     []protocol.Incarnation
}

type submission struct {
	id           string
	digest       queue.Digest
	payloadBytes int
}

// Check takes over a batch, or returns an error that wraps protocol.ErrInvalid if one of its jobs breaks a limit (G-134).
func Check(b queue.Batch) (Batch, error) {
	checked, err := Borrow(b)
	if err != nil {
		return Batch{}, err
	}
	checked.copied, checked.lent = make([]submission, len(b.Stores)), nil
	for i := range b.Stores {
		checked.copied[i] = submissionOf(&b.Stores[i])
	}
	checked.accepts = slices.Clone(b.Accepts)
	checked.attempts = slices.Clone(b.Attempts)
	checked.deadLetters = slices.Clone(b.DeadLetters)
	checked.confirms = slices.Clone(b.Confirms)
	return checked, nil
}

// Borrow is Check without a copy, for a store that is done with the batch before its caller gets it back.
func Borrow(b queue.Batch) (Batch, error) {
	for i := range b.Stores {
		if err := checkJob(&b.Stores[i].Job); err != nil {
			return Batch{}, err
		}
	}
	workers, err := checkWorkers(b.Workers)
	if err != nil {
		return Batch{}, err
	}
	return Batch{
		cursor: b.Cursor, lent: b.Stores, accepts: b.Accepts, attempts: b.Attempts, deadLetters: b.DeadLetters, confirms: b.Confirms,
		workers: workers,
	}, nil
}

func submissionOf(r *queue.StoreRequest) submission {
	return submission{id: r.Job.MessageID, digest: r.Digest, payloadBytes: len(r.Job.Payload)}
}

// submissions is the number of jobs to store.
func (b *Batch) submissions() int { return len(b.copied) + len(b.lent) }

func (b *Batch) submission(i int) submission {
	if b.lent != nil {
		return submissionOf(&b.lent[i])
	}
	return b.copied[i]
}

// size is the most entries that the batch can touch.
func (b *Batch) size() int {
	return b.submissions() + len(b.accepts) + len(b.attempts) + len(b.deadLetters) + len(b.confirms)
}

// Workers are the incarnations to record, sorted and each once; nil means that the recorded ones stay.
func (b Batch) Workers() []protocol.Incarnation { return b.workers }

func checkWorkers(given []protocol.Incarnation) ([]protocol.Incarnation, error) {
	if given == nil {
		return nil, nil
	}
	for _, w := range given {
		if err := errors.Join(protocol.CheckID("pod UID", w.PodUID), protocol.CheckID("boot nonce", w.BootNonce)); err != nil {
			return nil, err
		}
	}
	workers := append(make([]protocol.Incarnation, 0, len(given)), given...)
	slices.SortFunc(workers, func(a, b protocol.Incarnation) int {
		return cmp.Or(cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.BootNonce, b.BootNonce))
	})
	return slices.Compact(workers), nil
}

// checkJob refuses what the protocol would never have let in; the store is the last door.
func checkJob(job *protocol.Job) error {
	if err := protocol.CheckID("message id", job.MessageID); err != nil {
		return err
	}
	if len(job.Payload) == 0 {
		return fmt.Errorf("%w: message %q has an empty payload", protocol.ErrInvalid, job.MessageID)
	}
	if len(job.Payload) > protocol.MaxPayloadBytes {
		return fmt.Errorf("%w: the payload of message %q has %d bytes, the limit is %d",
			protocol.ErrInvalid, job.MessageID, len(job.Payload), protocol.MaxPayloadBytes)
	}
	bytes := 0
	for key, value := range job.Headers {
		bytes += len(key) + len(value)
	}
	if len(job.Headers) > protocol.MaxHeaders || bytes > protocol.MaxHeaderBytes {
		return fmt.Errorf("%w: message %q has %d headers of %d bytes, the limits are %d and %d", protocol.ErrInvalid,
			job.MessageID, len(job.Headers), bytes, protocol.MaxHeaders, protocol.MaxHeaderBytes)
	}
	return nil
}
