package endpoint_test

import (
	"context"
	"errors"
	"sync"

	"github.com/workpulling/workpulling/runtime/queue"
)

// faultyQueue fails or holds operations on demand.
type faultyQueue struct {
	queue.WorkQueue

	mu    sync.Mutex
	apply error
	hits  func(queue.Batch) bool // which batches apply fails; nil is all
	load  error
	hold  chan struct{} // Apply and Redrive wait for it or their context
	lose  int           // so many answers to Redrive and Drop, and to Apply of nothing but confirms, are lost after they happened
	blind int           // so many calls of Lookup fail
	calls int           // of Apply so far
}

var errLostAnswer = errors.New("the connection broke")

// loseAnswers makes the next decisions happen without an answer.
func (q *faultyQueue) loseAnswers(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lose = n
}

func (q *faultyQueue) loses() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lose == 0 {
		return nil
	}
	q.lose--
	return errLostAnswer
}

// failLookups makes the next look-ups fail.
func (q *faultyQueue) failLookups(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.blind = n
}

func (q *faultyQueue) Lookup(ctx context.Context, messageID string) (queue.JobState, bool, error) {
	q.mu.Lock()
	blind := q.blind > 0
	if blind {
		q.blind--
	}
	q.mu.Unlock()
	if blind {
		return queue.JobState{}, false, errLostAnswer
	}
	return q.WorkQueue.Lookup(ctx, messageID)
}

func (q *faultyQueue) set(apply, load error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.apply, q.load = apply, load
}

// applied is how many calls of Apply have begun.
func (q *faultyQueue) applied() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.calls
}

func (q *faultyQueue) block(hold chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hold = hold
}

func (q *faultyQueue) Apply(ctx context.Context, epoch queue.Epoch, batch queue.Batch) (queue.Result, error) {
	q.mu.Lock()
	err, hold := q.apply, q.hold
	q.calls++
	q.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return queue.Result{}, ctx.Err()
		}
	}
	if err != nil && (q.hits == nil || q.hits(batch)) {
		return queue.Result{}, err
	}
	result, err := q.WorkQueue.Apply(ctx, epoch, batch)
	if len(batch.Confirms) > 0 && len(batch.Stores)+len(batch.Accepts)+len(batch.DeadLetters)+len(batch.Attempts) == 0 {
		if lost := q.loses(); lost != nil {
			return queue.Result{}, lost
		}
	}
	return result, err
}

func (q *faultyQueue) Load(ctx context.Context, owner string, visit func(queue.Row) error) (queue.State, queue.Epoch, error) {
	q.mu.Lock()
	err := q.load
	q.mu.Unlock()
	if err != nil {
		return queue.State{}, 0, err
	}
	return q.WorkQueue.Load(ctx, owner, visit)
}

// Redrive happens also when its caller has given up, as a back-end may do.
func (q *faultyQueue) Redrive(ctx context.Context, epoch queue.Epoch, ref queue.JobRef, audit string) (queue.Row, error) {
	q.mu.Lock()
	hold := q.hold
	q.mu.Unlock()
	var late error
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			late = ctx.Err()
		}
	}
	row, err := q.WorkQueue.Redrive(context.WithoutCancel(ctx), epoch, ref, audit)
	if lost := q.loses(); lost != nil {
		return queue.Row{}, lost
	}
	return row, errors.Join(err, late)
}

func (q *faultyQueue) Drop(ctx context.Context, epoch queue.Epoch, ref queue.JobRef, audit string) error {
	err := q.WorkQueue.Drop(ctx, epoch, ref, audit)
	if lost := q.loses(); lost != nil {
		return lost
	}
	return err
}
