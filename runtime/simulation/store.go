package simulation

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// queueClock is the wall clock that a queue sees.
type queueClock func() time.Duration

// durable is the WorkQueue contract without contexts and concurrency: each call is one committed transaction.
type durable interface {
	load() (queue.State, queue.Epoch, []queue.Row, error)
	apply(epoch queue.Epoch, batch queue.Batch) (queue.Result, error)
	read(seqs []int64) ([]protocol.Job, error)
	compact(epoch queue.Epoch, window time.Duration) (forgotten []queue.JobRef, err error)
	redrive(epoch queue.Epoch, ref queue.JobRef) (queue.Row, error)
	drop(epoch queue.Epoch, ref queue.JobRef) error
	// lookup is the status of a job, "" if it is forgotten, and the row that a redrive would return.
	lookup(ref queue.JobRef) (queue.Row, string)
}

// storedJob is a row or, when settled, its tombstone.
type storedJob struct {
	ref                 queue.JobRef
	job                 protocol.Job
	digest              queue.Digest
	accepted            bool
	attempts, uncounted int
	status              string
	settledAt           time.Duration // the later of confirm and accept
}

// store is the reference queue: the contract of runtime/queue in its plainest form.
type store struct {
	now    queueClock
	epoch  queue.Epoch
	cursor int64
	byID   map[string]*storedJob
	bySeq  map[int64]*storedJob

	secret  queue.Secret
	workers []protocol.Incarnation
}

// newStore has a secret that is another one for a queue that is opened later, and in every replay the same.
func newStore(now queueClock) *store {
	var secret queue.Secret
	binary.BigEndian.PutUint64(secret[:], uint64(now())+1)
	return &store{now: now, secret: secret, byID: map[string]*storedJob{}, bySeq: map[int64]*storedJob{}}
}

func (s *store) load() (queue.State, queue.Epoch, []queue.Row, error) {
	s.epoch++
	state := queue.State{Cursor: s.cursor, Secret: s.secret, Workers: slices.Clone(s.workers)}
	var rows []queue.Row
	for _, seq := range slices.Sorted(maps.Keys(s.bySeq)) {
		j := s.bySeq[seq]
		switch j.status {
		case queue.StatusDeadLettered:
			state.DeadLetters++
		case queue.StatusStored:
			rows = append(rows, j.row())
		}
	}
	return state, s.epoch, rows, nil
}

func (j *storedJob) row() queue.Row {
	return queue.Row{
		JobRef: j.ref, PayloadBytes: len(j.job.Payload), Accepted: j.accepted, Attempts: j.attempts, Uncounted: j.uncounted,
	}
}

// check finds out whether the batch may be applied, before anything changes.
func (s *store) check(epoch queue.Epoch, batch queue.Batch) error {
	if epoch == 0 || epoch != s.epoch {
		return queue.ErrFenced
	}
	fresh := map[string]int64{}
	cursor := s.cursor
	for _, r := range batch.Stores {
		if s.byID[r.Job.MessageID] == nil && fresh[r.Job.MessageID] == 0 {
			cursor++
			fresh[r.Job.MessageID] = cursor
		}
	}
	if len(fresh) > 0 && batch.Cursor != s.cursor {
		return queue.ErrConflict
	}
	known := func(ref queue.JobRef) bool {
		if j := s.byID[ref.MessageID]; j != nil {
			if ref.StoreSeq >= j.ref.StoreSeq {
				return j.ref.StoreSeq == ref.StoreSeq
			}
		}
		if seq := fresh[ref.MessageID]; seq != 0 && ref.StoreSeq >= seq {
			return seq == ref.StoreSeq
		}
		return ref.StoreSeq >= 1 && ref.StoreSeq <= s.cursor && s.bySeq[ref.StoreSeq] == nil
	}
	for _, ref := range refsOf(batch) {
		if !known(ref) {
			return queue.ErrConflict
		}
	}
	return nil
}

func refsOf(batch queue.Batch) []queue.JobRef {
	refs := slices.Concat(batch.Accepts, batch.Confirms)
	for _, a := range batch.Attempts {
		refs = append(refs, a.JobRef)
	}
	for _, d := range batch.DeadLetters {
		refs = append(refs, d.JobRef)
	}
	return refs
}

func (s *store) apply(epoch queue.Epoch, batch queue.Batch) (queue.Result, error) {
	if err := s.check(epoch, batch); err != nil {
		return queue.Result{}, err
	}
	if batch.Workers != nil {
		s.workers = slices.Clone(batch.Workers)
	}
	result := queue.Result{}
	for _, r := range batch.Stores {
		result.Stores = append(result.Stores, s.put(r))
	}
	for _, ref := range batch.Accepts {
		if j := s.held(ref); j != nil && !j.accepted {
			j.accepted = true
			j.settledAt = s.now()
		}
	}
	for _, a := range batch.Attempts {
		if j := s.held(a.JobRef); j != nil {
			j.attempts = max(j.attempts, a.Attempts)
			j.uncounted = max(j.uncounted, a.Uncounted)
		}
	}
	for _, d := range batch.DeadLetters {
		if j := s.held(d.JobRef); j != nil && j.status == queue.StatusStored {
			j.status, j.attempts = queue.StatusDeadLettered, max(j.attempts, d.Attempts)
		}
	}
	for _, ref := range batch.Confirms {
		if j := s.held(ref); j != nil && !j.settled() { // a dead letter too: it was done after all
			j.status, j.settledAt = queue.StatusConfirmed, s.now()
		}
	}
	result.Cursor = s.cursor
	return result, nil
}

// held finds the job that a reference names, unless it is forgotten: its id may have been stored anew since.
func (s *store) held(ref queue.JobRef) *storedJob {
	if j := s.byID[ref.MessageID]; j != nil && j.ref == ref {
		return j
	}
	return nil
}

func (s *store) put(r queue.StoreRequest) queue.StoreResult {
	j := s.byID[r.Job.MessageID]
	if j == nil {
		s.cursor++
		j = &storedJob{
			ref: queue.JobRef{MessageID: r.Job.MessageID, StoreSeq: s.cursor}, job: r.Job, digest: r.Digest, status: queue.StatusStored,
		}
		s.byID[r.Job.MessageID], s.bySeq[s.cursor] = j, j
		return queue.StoreResult{StoreSeq: s.cursor, Verdict: protocol.StoredNew}
	}
	result := queue.StoreResult{StoreSeq: j.ref.StoreSeq}
	switch {
	case j.digest != r.Digest:
		result.Verdict = protocol.BodyMismatch
	case j.status == queue.StatusConfirmed:
		result.Verdict = protocol.AlreadyConfirmed
	case j.status == queue.StatusDeadLettered || j.status == queue.StatusDropped:
		result.Verdict = protocol.AlreadyDeadLettered
	default:
		result.Verdict = protocol.AlreadyStored
	}
	return result
}

func (s *store) read(seqs []int64) ([]protocol.Job, error) {
	jobs := make([]protocol.Job, len(seqs))
	for i, seq := range seqs {
		if j := s.bySeq[seq]; j != nil && !j.settled() {
			jobs[i] = j.job
		}
	}
	return jobs, nil
}

func (s *store) compact(epoch queue.Epoch, window time.Duration) ([]queue.JobRef, error) {
	if epoch != s.epoch {
		return nil, queue.ErrFenced
	}
	var forgotten []queue.JobRef
	for _, seq := range slices.Sorted(maps.Keys(s.bySeq)) {
		j := s.bySeq[seq]
		if j.settled() && j.accepted && s.now()-j.settledAt >= window {
			forgotten = append(forgotten, j.ref)
			delete(s.bySeq, seq)
			delete(s.byID, j.ref.MessageID)
		}
	}
	return forgotten, nil
}

func (s *store) deadLetter(epoch queue.Epoch, ref queue.JobRef) (*storedJob, error) {
	if epoch != s.epoch {
		return nil, queue.ErrFenced
	}
	j := s.held(ref)
	if j == nil || j.status != queue.StatusDeadLettered {
		return nil, queue.ErrNotFound
	}
	return j, nil
}

func (s *store) redrive(epoch queue.Epoch, ref queue.JobRef) (queue.Row, error) {
	j, err := s.deadLetter(epoch, ref)
	if err != nil {
		return queue.Row{}, err
	}
	j.status, j.attempts, j.uncounted = queue.StatusStored, 0, 0
	return j.row(), nil
}

func (s *store) drop(epoch queue.Epoch, ref queue.JobRef) error {
	j, err := s.deadLetter(epoch, ref)
	if err != nil {
		return err
	}
	j.status, j.settledAt = queue.StatusDropped, s.now()
	return nil
}

func (s *store) lookup(ref queue.JobRef) (queue.Row, string) {
	j := s.held(ref)
	if j == nil {
		return queue.Row{}, ""
	}
	return j.row(), j.status
}

func (j *storedJob) settled() bool {
	return j.status == queue.StatusConfirmed || j.status == queue.StatusDropped
}
