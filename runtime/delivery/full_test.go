package delivery

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// A queue without room for new jobs turns them away at once, and nothing else changes: no reload, bindings and credit stay, and what is
// stored is accepted, run and confirmed, whatever is submitted meanwhile (B-239, B-022).
func TestB239_FullQueueTurnsJobsAwayAndGoesOn(t *testing.T) {
	w := newWorld(t, nil)
	a := w.worker("a", nil)
	p := w.producer(64)
	p.mute = true
	w.submit(p, "kept-", 40)
	session, credit := p.session, p.upTo-p.used

	room := false
	w.applyErr = func(b queue.Batch) error {
		if len(b.Stores) > 0 && !room {
			return fmt.Errorf("%w: no space left on device", queue.ErrFull)
		}
		return nil
	}
	p.mute = false
	for _, stored := range p.stored { // the accepts come along with jobs that find no room
		p.send(protocol.StoredAck{Session: stored.Session, Token: stored.Token, MessageID: stored.MessageID}, queue.Digest{})
	}
	a.serve(confirmAll)
	for i := range 200 {
		w.submit(p, fmt.Sprintf("late-%d-", i), 2)
		w.advance(20 * time.Millisecond)
	}
	w.equal("loads", w.loads, 1)
	w.equal("session", p.session, session)
	w.equal("turned away", len(p.refused), 400)
	for _, r := range p.refused {
		if r.Code != protocol.RefusedQueueFull || r.RetryAfter <= 0 || r.Reason == "" {
			t.Fatalf("refused with %+v", r)
		}
	}
	st := w.ctl.Stats()
	w.equal("confirmed meanwhile", st.Confirmed, 40)
	w.equal("not durable", st.DirtyConfirms, 0)
	w.equal("bindings", len(st.Bindings), 1)
	w.equal("full", st.QueueFull, true)
	for i := range 40 {
		if state, ok, _ := w.queue.Lookup(t.Context(), fmt.Sprintf("kept-%d", i+1)); !ok || state.Status != queue.StatusConfirmed || !state.Accepted {
			t.Fatalf("kept-%d is %+v", i+1, state)
		}
	}
	if p.upTo-p.used < credit {
		t.Errorf("%d credits are left of %d", p.upTo-p.used, credit)
	}

	room = true
	w.submit(p, "again-", 3)
	w.advance(time.Second)
	st = w.ctl.Stats()
	w.equal("accepted", st.Accepted, 43)
	w.equal("confirmed", st.Confirmed, 43)
	w.equal("full", st.QueueFull, false)
	w.equal("error", st.QueueError, "")
	w.equal("loads", w.loads, 1)
}

// A late repeat of a job that was turned away is not taken for a new one: its token is used up.
func TestTurnedAwayTokenIsUsedUp(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(4)
	full := true
	w.applyErr = func(queue.Batch) error {
		if full {
			return queue.ErrFull
		}
		return nil
	}
	p.submit(newJob("x"))
	w.equal("turned away", len(p.refused), 1)
	full = false
	p.send(protocol.Produced{Session: p.session, Token: 1, Job: newJob("x")}, digestOf(newJob("x")))
	w.run()
	w.equal("stored", w.ctl.Stats().Accepted, 0)
	p.send(protocol.Produced{Session: p.session, Token: 1, Job: newJob("y")}, digestOf(newJob("y")))
	w.run()
	w.equal("refused as used", p.refused[len(p.refused)-1].Code, protocol.RefusedTokenReused)
	w.ctl.Take(w.now, QueueHasRoom{})
	w.equal("full", w.ctl.Stats().QueueFull, false)
}

// What may have been written is not turned away: only a load can tell, and then it is submitted again.
func TestFullQueueAfterAnUnknownOutcomeReloads(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(4)
	tries := 0
	w.lostReply = func(b queue.Batch) error {
		if tries++; len(b.Stores) == 0 || tries > 3 {
			return nil
		}
		if tries > 1 {
			return queue.ErrFull
		}
		return errors.New("the answer was lost")
	}
	p.submit(newJob("x"))
	w.advance(5 * time.Second)
	w.equal("turned away", len(p.refused), 0)
	w.equal("accepted once", w.ctl.Stats().Cursor, 1)
	w.equal("loads", w.loads, 2)
}

// A submission whose outcome an outage hides is told so, and no earlier than after a while: a short outage is ridden through (B-239).
func TestB239_NoSubmissionWaitsWithoutEnd(t *testing.T) {
	w := newWorld(t, nil)
	p := w.producer(8)
	gone := errors.New("connection refused")
	w.applyErr = func(queue.Batch) error { return gone }
	w.loadErr = func() error { return gone }
	w.submit(p, "job-", 3)
	w.advance(answerWithin - time.Second)
	w.equal("told too early", len(p.refused), 0)
	w.advance(2 * time.Second)
	w.equal("told", len(p.refused), 3)
	for _, r := range p.refused {
		w.equal("code", r.Code, protocol.RefusedUndecided)
	}
	w.advance(time.Minute)
	w.equal("told once", len(p.refused), 3)
	w.applyErr, w.loadErr = nil, nil
	w.advance(time.Minute)
	w.equal("stored after the outage", w.ctl.Stats().Accepted, 3)
	w.equal("told after the outage", len(p.refused), 3)
}
