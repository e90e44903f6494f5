package queuetest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/memory"
	"github.com/workpulling/workpulling/runtime/queue/queuetest"
)

func fixedClock() time.Time { return time.Unix(1_700_000_000, 0) }

// history is what some clients see of a queue in memory that a wrapper may spoil.
func history(t *testing.T, seed uint64, spoil func(queue.WorkQueue) queue.WorkQueue) []queuetest.Event {
	t.Helper()
	q, err := memory.New(memory.Options{Clock: fixedClock})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	var r queuetest.Recorder
	w := queuetest.Workload{Seed: seed, Clients: 6, Steps: 25, Impatient: 10}
	w.Run(t.Context(), []queue.WorkQueue{spoil(q)}, r.Record)
	return r.Events
}

// Histories of the queue in memory are linearizable (G-120).
func TestMemoryIsLinearizable(t *testing.T) {
	seed := queuetest.Seed(t)
	for i := range uint64(20) {
		if err := queuetest.CheckHistory(history(t, seed+i, func(q queue.WorkQueue) queue.WorkQueue { return q })); err != nil {
			t.Fatalf("seed %d: %v", seed+i, err)
		}
	}
}

// faulty breaks one promise now and then.
type faulty struct {
	queue.WorkQueue
	calls atomic.Int64

	mu   sync.Mutex
	seen map[string]queue.JobState

	stale, forgets, halves, twice, late bool
}

func (f *faulty) rarely() bool { return f.calls.Add(1)%7 == 0 }

func (f *faulty) Lookup(ctx context.Context, id string) (queue.JobState, bool, error) {
	f.mu.Lock()
	old, known := f.seen[id]
	f.mu.Unlock()
	if f.stale && known && f.rarely() {
		return old, true, nil
	}
	state, ok, err := f.WorkQueue.Lookup(ctx, id)
	if ok {
		f.mu.Lock()
		if _, known := f.seen[id]; !known {
			f.seen[id] = state
		}
		f.mu.Unlock()
	}
	return state, ok, err
}

func (f *faulty) Apply(ctx context.Context, epoch queue.Epoch, b queue.Batch) (queue.Result, error) {
	now := queue.Batch{}
	switch {
	case f.forgets && len(b.Confirms) > 0 && f.rarely():
		b.Confirms = nil
	case f.halves && len(b.Stores) > 0 && len(b.Confirms) > 0 && f.rarely():
		now = b
		now.Confirms, b.Stores = nil, nil
		result, err := f.WorkQueue.Apply(ctx, epoch, now)
		if err != nil {
			return queue.Result{}, err
		}
		<-time.After(time.Millisecond)
		_, err = f.WorkQueue.Apply(ctx, epoch, b)
		if err != nil {
			return queue.Result{}, err
		}
		return result, nil
	case f.late && len(b.Confirms) > 0 && f.rarely():
		now = queue.Batch{Confirms: b.Confirms}
		b.Confirms = nil
		result, err := f.WorkQueue.Apply(ctx, epoch, b)
		if err == nil {
			go func() {
				<-time.After(time.Duration(rand.IntN(2000)) * time.Microsecond)
				_, _ = f.WorkQueue.Apply(context.Background(), epoch, now)
			}()
		}
		return result, err
	}
	return f.WorkQueue.Apply(ctx, epoch, b)
}

func (f *faulty) Load(ctx context.Context, owner string, visit func(queue.Row) error) (queue.State, queue.Epoch, error) {
	state, epoch, err := f.WorkQueue.Load(ctx, owner, visit)
	if f.twice && err == nil && epoch > 1 {
		epoch--
	}
	return state, epoch, err
}

// A queue that breaks its promise now and then is found out: the test of the test.
func TestCheckerFindsPlantedFaults(t *testing.T) {
	for name, fault := range map[string]*faulty{
		"a look-up answers from long ago":         {stale: true},
		"a confirm is acknowledged and forgotten": {forgets: true},
		"a batch is two":                          {halves: true},
		"an epoch is issued twice":                {twice: true},
		"a write is acknowledged before it is":    {late: true},
	} {
		t.Run(name, func(t *testing.T) {
			seed := queuetest.Seed(t)
			for i := range uint64(100) {
				err := queuetest.CheckHistory(history(t, seed+i, func(q queue.WorkQueue) queue.WorkQueue {
					return &faulty{
						WorkQueue: q, seen: map[string]queue.JobState{},
						stale: fault.stale, forgets: fault.forgets, halves: fault.halves, twice: fault.twice, late: fault.late,
					}
				}))
				if err != nil && !errors.Is(err, queuetest.ErrUndecided) {
					t.Logf("found in history %d", i+1)
					return
				}
			}
			t.Error("a hundred histories, and nobody noticed")
		})
	}
}
