package simulation

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/memory"
)

// memoryQueue runs the real volatile back-end in the simulation, beside the reference; that it forgets with its process is up to the
// profile.
type memoryQueue struct {
	inner *memory.Queue
	refs  []queue.JobRef // of everything stored and not forgotten, to find out what a compaction forgot
}

func newMemoryQueue(now queueClock) (durable, error) {
	epoch := time.Unix(1_700_000_000, 0)
	// A queue that was lost and made anew has another secret, in every replay the same.
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], uint64(now()))
	q, err := memory.New(memory.Options{
		Random:              rand.NewChaCha8(seed),
		DeduplicationWindow: 24 * time.Hour,
		Clock:               func() time.Time { return epoch.Add(now()) },
	})
	if err != nil {
		return nil, err
	}
	return &twin{real: &memoryQueue{inner: q}, reference: newStore(now)}, nil
}

func (q *memoryQueue) load() (queue.State, queue.Epoch, []queue.Row, error) {
	var rows []queue.Row
	state, epoch, err := q.inner.Load(context.Background(), "simulation", func(r queue.Row) error {
		rows = append(rows, r)
		return nil
	})
	return state, epoch, rows, err
}

func (q *memoryQueue) apply(epoch queue.Epoch, batch queue.Batch) (queue.Result, error) {
	result, err := q.inner.Apply(context.Background(), epoch, batch)
	for i, s := range result.Stores {
		if s.Verdict == protocol.StoredNew {
			q.refs = append(q.refs, queue.JobRef{MessageID: batch.Stores[i].Job.MessageID, StoreSeq: s.StoreSeq})
		}
	}
	return result, err
}

func (q *memoryQueue) read(seqs []int64) ([]protocol.Job, error) {
	return q.inner.ReadJobs(context.Background(), seqs)
}

func (q *memoryQueue) compact(epoch queue.Epoch, window time.Duration) ([]queue.JobRef, error) {
	q.inner.SetDeduplicationWindow(window)
	if _, err := q.inner.Compact(context.Background(), epoch, math.MaxInt); err != nil {
		return nil, err
	}
	var forgotten []queue.JobRef
	var failed error
	q.refs = slices.DeleteFunc(q.refs, func(ref queue.JobRef) bool {
		_, ok, err := q.inner.Lookup(context.Background(), ref.MessageID)
		if err != nil {
			failed = err
		}
		if gone := err == nil && !ok; gone {
			forgotten = append(forgotten, ref)
			return true
		}
		return false
	})
	return forgotten, failed
}

func (q *memoryQueue) redrive(epoch queue.Epoch, ref queue.JobRef) (queue.Row, error) {
	return q.inner.Redrive(context.Background(), epoch, ref, "the simulation redrives")
}

func (q *memoryQueue) drop(epoch queue.Epoch, ref queue.JobRef) error {
	return q.inner.Drop(context.Background(), epoch, ref, "the simulation drops")
}

func (q *memoryQueue) lookup(ref queue.JobRef) (queue.Row, string) {
	state, ok, err := q.inner.Lookup(context.Background(), ref.MessageID)
	if err != nil || !ok || state.StoreSeq != ref.StoreSeq {
		return queue.Row{}, ""
	}
	row := queue.Row{JobRef: ref, Accepted: state.Accepted, Attempts: state.Attempts}
	if jobs, err := q.inner.ReadJobs(context.Background(), []int64{ref.StoreSeq}); err == nil && len(jobs) == 1 {
		row.PayloadBytes = len(jobs[0].Payload)
	}
	return row, state.Status
}
