package simulation

import (
	"bytes"
	"maps"
	"math"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// life is the life of one stored job as the outside world saw it: from its first write to its tombstone's end.
type life struct {
	ref      queue.JobRef
	job      protocol.Job
	digest   queue.Digest
	accepted bool
	settled  bool // confirmed, dead-lettered or dropped; not open
	dead     bool // waits among the dead letters
	confirms int
	position int // in ledger.open while open

	holder     *controllerView // the controller that was told of it and must hold it
	successes  int             // handlers that ended in success
	rejects    int
	dispatches int
	redrives   int
	untold     bool // put back by a person, and the controller was not told yet
	uncounted  int  // deliveries that ended before the handler started, or without an app to reach
	storedAt   time.Duration
	running    int  // handlers running now, anywhere
	lost       int  // runs of it that were claimed lost, perhaps of a time before a redrive
	released   bool // its worker was told to forget it before its end was durable
}

// ledger is the book of truth: it sees what the queue committed and what handlers did, and knows nothing of the machines.
type ledger struct {
	w            *flow
	epoch        queue.Epoch
	cursor       int64
	byID         map[string]*life
	bySeq        map[int64]*life
	open         []*life
	writes       uint64 // of controllers and people
	effects      uint64 // all operations that changed the queue
	maxAttempts  int    // the lowest that was ever configured; 0 if never limited
	mostAttempts int    // the highest, without end if it was ever unlimited

	given       map[gift]proof
	submissions map[string]*submission
	settledIDs  map[string]bool // ids that ended well or among the dead letters, once
	lost        map[string]bool // ids that a volatile queue forgot
	succeeded   map[string]bool // ids that a handler finished, also before a volatile queue forgot them
}

func newLedger(w *flow) *ledger {
	l := &ledger{w: w, submissions: map[string]*submission{}, settledIDs: map[string]bool{}, lost: map[string]bool{}, succeeded: map[string]bool{}}
	l.begin()
	l.reconfigured(w.tunables.controller)
	return l
}

// begin opens the book of an empty queue.
func (l *ledger) begin() {
	l.epoch, l.cursor, l.open = 0, 0, nil
	l.byID, l.bySeq, l.given = map[string]*life{}, map[int64]*life{}, map[gift]proof{}
}

func (l *ledger) reconfigured(c delivery.ControllerConfig) {
	if c.MaxAttempts == 0 {
		l.mostAttempts = math.MaxInt32
	}
	l.mostAttempts = max(l.mostAttempts, c.MaxAttempts)
	if c.MaxAttempts > 0 && (l.maxAttempts == 0 || c.MaxAttempts < l.maxAttempts) {
		l.maxAttempts = c.MaxAttempts
	}
}

func (l *ledger) expect(s *submission) {
	if !s.wrong && l.submissions[s.job.MessageID] == nil {
		l.submissions[s.job.MessageID] = s
	}
	l.w.counts.Submissions++
}

func (l *ledger) submission(id string) *submission { return l.submissions[id] }

// forgetAll is the end of a volatile queue.
func (l *ledger) forgetAll() {
	for _, f := range l.open {
		l.lost[f.ref.MessageID] = true
		l.w.counts.Lost++
		l.w.count(VolatileLoss)
	}
	for id, f := range l.byID {
		if f.dead {
			l.lost[id] = true
		}
	}
	l.begin()
}

func (l *ledger) add(f *life) {
	f.position = len(l.open)
	l.open = append(l.open, f)
}

func (l *ledger) close(f *life) {
	last := l.open[len(l.open)-1]
	l.open[f.position], last.position = last, f.position
	l.open = l.open[:len(l.open)-1]
	f.settled, f.holder = true, nil
	l.settledIDs[f.ref.MessageID] = true
}

// loaded checks what a committed Load returned.
func (l *ledger) loaded(e delivery.Loaded, err error) {
	l.writes++
	l.effects++
	if err != nil {
		l.w.violate("queue", "load: %v", err)
		return
	}
	if e.Epoch <= l.epoch {
		l.w.violate("I-5", "load returned epoch %d after %d", e.Epoch, l.epoch)
	}
	l.epoch = e.Epoch
	if e.State.Cursor != l.cursor {
		l.w.violate("I-6", "load returned cursor %d, %d jobs were appended", e.State.Cursor, l.cursor)
	}
	if len(e.Rows) != len(l.open) {
		l.w.violate("I-1", "load returned %d rows, %d jobs are open", len(e.Rows), len(l.open))
		return
	}
	if dead := l.dead(); e.State.DeadLetters != dead {
		l.w.violate("I-1", "load returned %d dead letters, there are %d", e.State.DeadLetters, dead)
	}
	previous := int64(0)
	for _, row := range e.Rows {
		f := l.bySeq[row.StoreSeq]
		if row.StoreSeq <= previous || f == nil || f.settled || f.ref != row.JobRef {
			l.w.violate("I-6", "load returned %v after sequence %d", row.JobRef, previous)
			return
		}
		previous = row.StoreSeq
	}
}

// dead counts the dead letters.
func (l *ledger) dead() (n int64) {
	for _, f := range l.bySeq {
		if f.dead {
			n++
		}
	}
	return n
}

// applied books a batch.
func (l *ledger) applied(p *producer, epoch queue.Epoch, b queue.Batch, r queue.Result, err error) {
	if err != nil {
		return
	}
	l.writes++
	l.effects++
	if epoch != l.epoch {
		l.w.violate("I-5", "%s wrote under epoch %d, the newest is %d", p.name, epoch, l.epoch)
	}
	for i, s := range b.Stores {
		l.stored(s, r.Stores[i])
	}
	if r.Cursor != l.cursor {
		l.w.violate("I-6", "the cursor is %d after %d appends", r.Cursor, l.cursor)
	}
	for _, ref := range b.Accepts {
		if f := l.life(ref); f != nil {
			f.accepted = true
		}
	}
	for _, d := range b.DeadLetters {
		l.deadLettered(d)
	}
	for _, ref := range b.Confirms {
		l.confirmed(ref)
	}
}

func (l *ledger) life(ref queue.JobRef) *life {
	f := l.bySeq[ref.StoreSeq]
	if f == nil || f.ref != ref {
		l.w.violate("I-6", "the queue took a write for %v, which was never stored", ref)
		return nil
	}
	return f
}

func (l *ledger) stored(s queue.StoreRequest, r queue.StoreResult) {
	id := s.Job.MessageID
	known := l.byID[id]
	if r.Verdict == protocol.StoredNew {
		if known != nil {
			l.w.violate("I-6", "%s was stored as new and is known as %v", id, known.ref)
		}
		if r.StoreSeq != l.cursor+1 {
			l.w.violate("I-6", "%s got store sequence %d after %d", id, r.StoreSeq, l.cursor)
		}
		l.cursor = r.StoreSeq
		f := &life{ref: queue.JobRef{MessageID: id, StoreSeq: r.StoreSeq}, digest: s.Digest, storedAt: l.w.now}
		f.job = protocol.Job{MessageID: id, Headers: maps.Clone(s.Job.Headers), Payload: bytes.Clone(s.Job.Payload)}
		l.byID[id], l.bySeq[r.StoreSeq] = f, f
		l.add(f)
		l.w.counts.Stored++
		return
	}
	switch {
	case known == nil || known.ref.StoreSeq != r.StoreSeq:
		l.w.violate("I-6", "%s is said to be known at %d", id, r.StoreSeq)
	case (known.digest == s.Digest) == (r.Verdict == protocol.BodyMismatch):
		l.w.violate("I-7", "%s was judged %d against the first bytes", id, r.Verdict)
	case r.Verdict == protocol.BodyMismatch:
		l.w.count(BodyConflicted)
	}
}

// finished reports whether a handler finished the job. A worker may remember that from before a volatile queue forgot it.
func (f *life) finished(l *ledger) bool {
	return f.successes > 0 || l.w.profile.Volatile && l.succeeded[f.ref.MessageID]
}

// wasted counts a delivery that cost no attempt. A job that only ever wastes its workers must not do so for ever (G-X02). Counts
// that were not written yet are lost with each load.
func (l *ledger) wasted(f *life) {
	f.uncounted++
	if limit := 5*l.mostAttempts + 3*int(l.w.counts.Reloads+1); f.uncounted > limit {
		l.w.violate("attempts", "%v was delivered %d times in vain, %d are allowed", f.ref, f.uncounted, limit)
	}
}

func (l *ledger) confirmed(ref queue.JobRef) {
	f := l.life(ref)
	if f == nil {
		return
	}
	if !f.finished(l) {
		l.w.violate("I-8", "%v is confirmed and no handler ever finished it", ref)
	}
	f.confirms++
	f.dead = false
	if !f.settled {
		l.close(f)
		l.w.counts.Confirmed++
	}
}

func (l *ledger) deadLettered(d queue.DeadLetterRequest) {
	f := l.life(d.JobRef)
	if f == nil || f.settled {
		return
	}
	l.w.count(DeadLettered)
	switch {
	case d.Reason == "":
		l.w.violate("I-10", "%v became a dead letter without a reason", d.JobRef)
	case f.rejects == 0 && (l.maxAttempts == 0 || f.dispatches+f.lost < l.maxAttempts):
		l.w.violate("I-10", "%v became a dead letter (%s) after %d dispatches, at least %d are allowed and nobody rejected it",
			d.JobRef, d.Reason, f.dispatches, l.maxAttempts)
	}
	f.dead = true
	l.close(f)
}

// anyDead chooses a dead letter for a person to decide on.
func (l *ledger) anyDead() *life {
	var dead []*life
	for _, seq := range sortedKeys(l.bySeq) {
		if f := l.bySeq[seq]; f.dead && l.byID[f.ref.MessageID] == f {
			dead = append(dead, f)
		}
	}
	if len(dead) == 0 {
		return nil
	}
	return dead[l.w.rng.IntN(len(dead))]
}

func (l *ledger) redriven(f *life) {
	l.writes++
	l.effects++
	f.dead, f.settled, f.dispatches, f.rejects = false, false, 0, 0
	f.uncounted = 0
	f.redrives++
	f.untold = true
	l.add(f)
}

func (l *ledger) dropped(f *life) {
	l.writes++
	l.effects++
	f.dead = false
}

// forgotten is the end of a tombstone: the id may live again.
func (l *ledger) forgotten(ref queue.JobRef) {
	l.effects++
	f := l.bySeq[ref.StoreSeq]
	if f == nil || !f.settled || !f.accepted || f.dead {
		l.w.violate("I-10", "the queue forgot %v, which is not settled and accepted", ref)
		return
	}
	delete(l.byID, ref.MessageID)
}

// marked checks the word that a submitter was given.
func (l *ledger) marked(v protocol.Stored) {
	if l.bySeq[v.StoreSeq] == nil && !l.lost[v.MessageID] && !l.w.profile.Volatile {
		l.w.violate("I-10", "the submitter was told that %s is stored at %d, which never was", v.MessageID, v.StoreSeq)
	}
}

// finish checks that every word to a submitter came true.
func (l *ledger) finish() {
	for _, s := range l.w.submitters {
		for _, sub := range s.source {
			id := sub.job.MessageID
			if sub.answered && !sub.wrong && !l.settledIDs[id] && !l.lost[id] {
				l.w.violate("I-10", "%s answered for %s and it is nowhere", s.name, id)
			}
		}
	}
}

// sameJob compares what somebody sees with what was stored first.
func sameJob(a, b protocol.Job) bool {
	return a.MessageID == b.MessageID && bytes.Equal(a.Payload, b.Payload) && maps.Equal(a.Headers, b.Headers)
}
