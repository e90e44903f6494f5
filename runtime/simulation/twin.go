package simulation

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// twin does every operation on a real queue and on the reference, and compares all that they say. Two queues that only run side by side
// in different worlds would differ unnoticed where the machines do not care.
type twin struct {
	real      durable
	reference *store
}

// disagreement is what a twin panics with.
type disagreement string

func (t *twin) load() (queue.State, queue.Epoch, []queue.Row, error) {
	state, epoch, rows, err := t.real.load()
	otherState, otherEpoch, otherRows, otherErr := t.reference.load()
	same("load", err, otherErr)
	alike("the epoch of load", epoch, otherEpoch)
	alike("the cursor of load", state.Cursor, otherState.Cursor)
	alike("the dead letters of load", state.DeadLetters, otherState.DeadLetters)
	alike("the workers of load", byPod(state.Workers), byPod(otherState.Workers))
	plain := slices.Clone(rows)
	for i := range plain {
		plain[i].StoredAt = time.Time{}
	}
	alike("the rows of load", plain, otherRows)
	return state, epoch, rows, err
}

func (t *twin) apply(epoch queue.Epoch, batch queue.Batch) (queue.Result, error) {
	result, err := t.real.apply(epoch, batch)
	other, otherErr := t.reference.apply(epoch, batch)
	same("apply", err, otherErr)
	alike("the result of apply", result, other)
	return result, err
}

func (t *twin) read(seqs []int64) ([]protocol.Job, error) {
	jobs, err := t.real.read(seqs)
	other, otherErr := t.reference.read(seqs)
	same("read", err, otherErr)
	alike("how many were read", len(jobs), len(other))
	for i := range jobs {
		if !sameJob(jobs[i], other[i]) {
			panic(disagreement(fmt.Sprintf("%d reads as %q, the reference as %q", seqs[i], jobs[i].MessageID, other[i].MessageID)))
		}
	}
	return jobs, err
}

func (t *twin) compact(epoch queue.Epoch, window time.Duration) ([]queue.JobRef, error) {
	forgotten, err := t.real.compact(epoch, window)
	other, otherErr := t.reference.compact(epoch, window)
	same("compact", err, otherErr)
	alike("what was forgotten", forgotten, other)
	return forgotten, err
}

func (t *twin) redrive(epoch queue.Epoch, ref queue.JobRef) (queue.Row, error) {
	row, err := t.real.redrive(epoch, ref)
	other, otherErr := t.reference.redrive(epoch, ref)
	same("redrive", err, otherErr)
	plain := row
	plain.StoredAt = time.Time{}
	alike("the row of redrive", plain, other)
	return row, err
}

func (t *twin) drop(epoch queue.Epoch, ref queue.JobRef) error {
	err := t.real.drop(epoch, ref)
	same("drop", err, t.reference.drop(epoch, ref))
	return err
}

func (t *twin) lookup(ref queue.JobRef) (queue.Row, string) {
	row, status := t.real.lookup(ref)
	_, other := t.reference.lookup(ref)
	alike("the status of lookup", status, other)
	return row, status
}

// byPod is a list of workers in the one order: the list is a set.
func byPod(workers []protocol.Incarnation) []protocol.Incarnation {
	return slices.SortedFunc(slices.Values(workers), func(a, b protocol.Incarnation) int { return strings.Compare(a.PodUID, b.PodUID) })
}

// same compares how an operation ended.
func same(what string, a, b error) {
	for _, kind := range []error{queue.ErrFenced, queue.ErrConflict, queue.ErrNotFound} {
		if errors.Is(a, kind) != errors.Is(b, kind) {
			panic(disagreement(fmt.Sprintf("%s ends with %v, in the reference with %v", what, a, b)))
		}
	}
	if (a == nil) != (b == nil) {
		panic(disagreement(fmt.Sprintf("%s ends with %v, in the reference with %v", what, a, b)))
	}
}

func alike(what string, a, b any) {
	if !reflect.DeepEqual(a, b) {
		panic(disagreement(fmt.Sprintf("%s: %+v, in the reference %+v", what, a, b)))
	}
}
