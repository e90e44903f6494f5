package queuetest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// model is the contract written down as simply as possible: a map that is copied before each batch. It shares no code with any
// back-end on purpose.
type model struct {
	cursor  int64
	jobs    map[string]modelJob
	workers []protocol.Incarnation
}

type modelJob struct {
	seq       int64
	digest    queue.Digest
	payload   string
	status    string
	accepted  bool
	attempts  int
	uncounted int
	reason    string
	deadSince time.Time
	ages      time.Time // start of the window; zero while it does not run
}

// state is the job as Lookup reports it.
func (j modelJob) state() queue.JobState {
	state := queue.JobState{StoreSeq: j.seq, Status: j.status, Attempts: j.attempts, Accepted: j.accepted, Digest: j.digest}
	if j.status == queue.StatusDeadLettered {
		state.Reason = j.reason
	}
	return state
}

func (j modelJob) settled() bool {
	return j.status == queue.StatusConfirmed || j.status == queue.StatusDropped
}

// apply returns what the store must answer; on an error the model is as before.
func (m *model) apply(b queue.Batch, now time.Time) (queue.Result, error) {
	next := model{cursor: m.cursor, jobs: maps.Clone(m.jobs), workers: m.workers}
	result, err := next.run(b, now)
	if err == nil {
		*m = next
	}
	return result, err
}

func (m *model) run(b queue.Batch, now time.Time) (queue.Result, error) {
	var result queue.Result
	start := m.cursor
	for _, r := range b.Stores {
		known, ok := m.jobs[r.Job.MessageID]
		if !ok {
			if b.Cursor != start {
				return queue.Result{}, queue.ErrConflict
			}
			m.cursor++
			m.jobs[r.Job.MessageID] = modelJob{seq: m.cursor, digest: r.Digest, payload: string(r.Job.Payload), status: queue.StatusStored}
			result.Stores = append(result.Stores, queue.StoreResult{StoreSeq: m.cursor, Verdict: protocol.StoredNew})
			continue
		}
		verdict := map[string]protocol.StoreVerdict{
			queue.StatusStored: protocol.AlreadyStored, queue.StatusConfirmed: protocol.AlreadyConfirmed,
			queue.StatusDeadLettered: protocol.AlreadyDeadLettered, queue.StatusDropped: protocol.AlreadyDeadLettered,
		}[known.status]
		if known.digest != r.Digest {
			verdict = protocol.BodyMismatch
		}
		result.Stores = append(result.Stores, queue.StoreResult{StoreSeq: known.seq, Verdict: verdict})
	}
	for _, r := range b.Accepts {
		if err := m.with(r, func(j *modelJob) {
			if !j.accepted && j.settled() {
				j.ages = now
			}
			j.accepted = true
		}); err != nil {
			return queue.Result{}, err
		}
	}
	for _, r := range b.Attempts {
		if err := m.with(r.JobRef, func(j *modelJob) {
			if j.status == queue.StatusStored && (r.Attempts > j.attempts || r.Uncounted > j.uncounted) {
				j.attempts, j.uncounted, j.reason = max(j.attempts, r.Attempts), max(j.uncounted, r.Uncounted), r.LastReason
			}
		}); err != nil {
			return queue.Result{}, err
		}
	}
	for _, r := range b.DeadLetters {
		if err := m.with(r.JobRef, func(j *modelJob) {
			if j.status == queue.StatusStored {
				j.status, j.deadSince, j.attempts, j.reason = queue.StatusDeadLettered, now, max(j.attempts, r.Attempts), cmp.Or(r.Reason, j.reason)
			}
		}); err != nil {
			return queue.Result{}, err
		}
	}
	for _, r := range b.Confirms {
		if err := m.with(r, func(j *modelJob) { j.settle(queue.StatusConfirmed, now) }); err != nil {
			return queue.Result{}, err
		}
	}
	if b.Workers != nil {
		m.workers = b.Workers
	}
	result.Cursor = m.cursor
	return result, nil
}

func (j *modelJob) settle(status string, now time.Time) {
	if j.settled() {
		return
	}
	j.status, j.payload = status, ""
	if j.accepted {
		j.ages = now
	}
}

// with applies a deed to a pair that is held, ignores one that may have been compacted and refuses one that never was.
func (m *model) with(r queue.JobRef, deed func(*modelJob)) error {
	if j, ok := m.jobs[r.MessageID]; ok && j.seq <= r.StoreSeq {
		if j.seq != r.StoreSeq {
			return queue.ErrConflict
		}
		deed(&j)
		m.jobs[r.MessageID] = j
		return nil
	}
	if r.MessageID == "" || r.StoreSeq < 1 || r.StoreSeq > m.cursor {
		return queue.ErrConflict
	}
	for _, j := range m.jobs {
		if j.seq == r.StoreSeq {
			return queue.ErrConflict
		}
	}
	return nil
}

func (m *model) redrive(r queue.JobRef) error {
	j, ok := m.jobs[r.MessageID]
	if !ok || j.seq != r.StoreSeq || j.status != queue.StatusDeadLettered {
		return queue.ErrNotFound
	}
	j.status, j.attempts, j.uncounted, j.reason = queue.StatusStored, 0, 0, ""
	m.jobs[r.MessageID] = j
	return nil
}

func (m *model) drop(r queue.JobRef, now time.Time) error {
	j, ok := m.jobs[r.MessageID]
	if !ok || j.seq != r.StoreSeq || j.status != queue.StatusDeadLettered {
		return queue.ErrNotFound
	}
	j.settle(queue.StatusDropped, now)
	m.jobs[r.MessageID] = j
	return nil
}

// expired are the ids that compaction may take, oldest window first and with equal ages in one group.
func (m *model) expired(now time.Time) []string {
	var ids []string
	for id, j := range m.jobs {
		if !j.ages.IsZero() && now.Sub(j.ages) >= window {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return m.jobs[a].ages.Compare(m.jobs[b].ages) })
	return ids
}

// rows are what a load must visit.
func (m *model) rows() []queue.JobRef {
	var refs []queue.JobRef
	for id, j := range m.jobs {
		if j.status == queue.StatusStored {
			refs = append(refs, ref(id, j.seq))
		}
	}
	slices.SortFunc(refs, func(a, b queue.JobRef) int { return cmp.Compare(a.StoreSeq, b.StoreSeq) })
	return refs
}
