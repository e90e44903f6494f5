// Package lane gathers the writes of a queue's callers into groups and has one group at a time committed: the slower the medium is, the
// larger the groups.
//
// Invariants:
//   - Operations run in the order in which they came.
//   - A caller leaves at the end of its context, whatever the medium does. What it asked for may still happen.
//   - While somebody holds the lane, no group runs.
package lane

import (
	"context"
	"sync"

	"github.com/workpulling/workpulling/runtime/queue"
)

// maxGroupBytes bounds the payloads of one group; a single larger operation is a group of its own.
const maxGroupBytes = 16 << 20

// Operation is one write that waits for its place in a group. Nothing in it belongs to the caller.
type Operation[D any] struct {
	// Ctx is the caller's.
	Ctx context.Context
	// Epoch is that under which the caller writes.
	Epoch queue.Epoch
	// Bytes is the size of its payloads.
	Bytes int
	// Alone says that it shares its group with no other.
	Alone bool
	// Deed is what to do, in the words of the back-end.
	Deed D

	done chan error // buffered: the answer never waits for a caller that gave up
}

// Backend commits groups.
type Backend[D any] struct {
	// Transact does a group of at least one in one transaction, with Each. The first result holds an error for each operation; the second
	// voids them all.
	Transact func(group []*Operation[D]) ([]error, error)
	// Apart says after a failure of several that each may pass by itself, so that one does not take the others down with it.
	Apart func(failure error) bool
}

// Each does the operations of a group, and returns how each ended: one whose caller has left does not happen.
func Each[D any](group []*Operation[D], do func(*Operation[D]) error) []error {
	errs := make([]error, len(group))
	for i, op := range group {
		if errs[i] = op.Ctx.Err(); errs[i] == nil {
			errs[i] = do(op)
		}
	}
	return errs
}

// Lane is the line of a queue's writes. It is safe for concurrent use.
type Lane[D any] struct {
	backend Backend[D]
	ended   error
	holder  chan struct{} // semaphore of one

	mu      sync.Mutex // guards what follows
	pending []*Operation[D]
	closed  bool
	running bool // a flusher takes what is pending
	flusher sync.WaitGroup
}

// New returns a Lane. ended is what operations of a closed lane get.
func New[D any](ended error, backend Backend[D]) *Lane[D] {
	return &Lane[D]{backend: backend, ended: ended, holder: make(chan struct{}, 1)}
}

// Do hands an operation to the next group and waits for its end or its context's. After the context's end it may still happen, so what
// it finds out may be read only if Do returns nil.
func (l *Lane[D]) Do(op *Operation[D]) error {
	if err := op.Ctx.Err(); err != nil {
		return err
	}
	op.done = make(chan error, 1)
	if err := l.enqueue(op); err != nil {
		return err
	}
	select {
	case err := <-op.done:
		return err
	case <-op.Ctx.Done():
		return op.Ctx.Err()
	}
}

func (l *Lane[D]) enqueue(op *Operation[D]) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.ended
	}
	l.pending = append(l.pending, op)
	if !l.running {
		l.running = true
		l.flusher.Go(l.flush)
	}
	return nil
}

// flush runs what is pending, group by group, until nothing is.
func (l *Lane[D]) flush() {
	for {
		l.holder <- struct{}{}
		group := l.takeGroup()
		if group != nil {
			l.run(group)
		}
		l.Release()
		if group == nil {
			return
		}
	}
}

// run commits a group and answers its callers. If that fails, nothing that was said inside it counts, not even a refusal: it may have
// rested on a neighbour that did not happen after all.
func (l *Lane[D]) run(group []*Operation[D]) {
	errs, failure := l.backend.Transact(group)
	if failure != nil && len(group) > 1 && l.backend.Apart(failure) {
		for i := range group {
			l.run(group[i : i+1])
		}
		return
	}
	for i, op := range group {
		if failure != nil {
			op.done <- failure
		} else {
			op.done <- errs[i]
		}
	}
}

// takeGroup takes the head of the line; with nothing in it, it ends the flusher.
func (l *Lane[D]) takeGroup() []*Operation[D] {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, bytes := 0, 0
	for n < len(l.pending) && (n == 0 || bytes+l.pending[n].Bytes <= maxGroupBytes && !l.pending[n].Alone && !l.pending[0].Alone) {
		bytes += l.pending[n].Bytes
		n++
	}
	group := l.pending[:n:n]
	l.pending = l.pending[n:]
	if n == 0 {
		l.running, l.pending, group = false, nil, nil
	}
	return group
}

// Hold waits until no group runs and keeps it so until Release. An error is the context's.
func (l *Lane[D]) Hold(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case l.holder <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Release ends a Hold; another goroutine may do it.
func (l *Lane[D]) Release() { <-l.holder }

// Closed says whether Close was called.
func (l *Lane[D]) Closed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Waiting is how many operations wait for a group that has not started.
func (l *Lane[D]) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pending)
}

// Close waits for a group that runs and for who holds the lane; what waits behind it ends with an error. It returns false where the lane
// was closed before.
func (l *Lane[D]) Close() bool {
	l.mu.Lock()
	before := l.closed
	l.closed = true
	l.mu.Unlock()
	if before {
		return false
	}
	l.holder <- struct{}{}
	l.mu.Lock()
	rest := l.pending
	l.pending = nil
	l.mu.Unlock()
	for _, op := range rest {
		op.done <- l.ended
	}
	l.Release()
	l.flusher.Wait()
	return true
}
