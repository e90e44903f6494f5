package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// Batch is a checked queue.Batch without the jobs' bytes. It shares no memory with the caller's, so a store may work on it
// after the caller gave up waiting.
type Batch struct {
	cursor      int64
	submissions []submission
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
	checked := Batch{
		cursor:      b.Cursor,
		submissions: make([]submission, len(b.Stores)),
		accepts:     slices.Clone(b.Accepts),
		attempts:    slices.Clone(b.Attempts),
		deadLetters: slices.Clone(b.DeadLetters),
		confirms:    slices.Clone(b.Confirms),
	}
	for i, request := range b.Stores {
		if err := checkJob(request.Job); err != nil {
			return Batch{}, err
		}
		checked.submissions[i] = submission{id: request.Job.MessageID, digest: request.Digest, payloadBytes: len(request.Job.Payload)}
	}
	var err error
	checked.workers, err = checkWorkers(b.Workers)
	if err != nil {
		return Batch{}, err
	}
	return checked, nil
}

// size is the most entries that the batch can touch.
func (b Batch) size() int {
	return len(b.submissions) + len(b.accepts) + len(b.attempts) + len(b.deadLetters) + len(b.confirms)
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
func checkJob(job protocol.Job) error {
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
