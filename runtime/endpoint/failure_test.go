package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// A fenced writer fails once, stays up, refuses and says why; a new endpoint recovers it under a new epoch (B-070, B-234, B-237).
func TestFencedFlowFailsOnceAndRecovers(t *testing.T) {
	q := &faultyQueue{WorkQueue: memoryQueue(t)}
	f := newFlow(t, q)
	failures := make(chan delivery.Failed, 10)
	f.options.OnFailed = func(failed delivery.Failed) { failures <- failed }
	f.start(t)
	c := newCrew()
	worker, _ := c.join(t, f, "w0", succeed)
	submit(t, f, 0, 10)
	f.settled(t)

	q.set(queue.ErrFenced, nil)
	job := jobNamed("fenced")
	if _, err := f.producer.Submit(t.Context(), job, endpoint.Digest(job)); !errors.Is(err, endpoint.ErrUnavailable) {
		t.Errorf("submitting to a fenced flow: %v", err)
	}
	if failed := <-failures; failed.Stage != delivery.StageStore || !errors.Is(failed.Cause, queue.ErrFenced) {
		t.Errorf("failed with %v", failed)
	}
	if _, err := f.producer.Submit(t.Context(), job, endpoint.Digest(job)); !errors.Is(err, endpoint.ErrUnavailable) {
		t.Errorf("submitting to a failed flow: %v", err)
	}
	if s := f.stats(t); s.Failure == nil || s.Failure.Stage != delivery.StageStore {
		t.Errorf("the figures do not tell the failure: %v", s.Failure)
	}
	eventually(t, "the worker is told why it has no binding", func() bool {
		return !worker.Status().Registered && worker.Status().LastRefusal != ""
	})
	epoch := f.stats(t).Epoch

	q.set(nil, nil)
	f.stop()
	f.start(t)
	submit(t, f, 10, 10)
	f.settled(t)
	c.check(t, 20)
	if s := f.stats(t); s.Failure != nil || s.Epoch <= epoch {
		t.Errorf("after the restart: failure %v, epoch %d after %d", s.Failure, s.Epoch, epoch)
	}
	if len(failures) > 0 {
		t.Errorf("%d more failures were reported", len(failures))
	}
}

// A queue that hangs for a while costs nothing: submissions that got no answer are stored under their ids once it is back (B-239).
func TestHangingQueueIsSurvived(t *testing.T) {
	q := &faultyQueue{WorkQueue: memoryQueue(t)}
	f := newFlow(t, q)
	f.options.OperationTimeout = 100 * time.Millisecond
	f.start(t)
	c := newCrew()
	c.join(t, f, "w0", succeed)
	submit(t, f, 0, 50)
	f.settled(t)
	hold := make(chan struct{})
	q.block(hold)
	job := jobNamed("job-00050")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := f.producer.Submit(ctx, job, endpoint.Digest(job)); !errors.Is(err, endpoint.ErrUnavailable) {
		t.Errorf("submitting into a hanging queue: %v", err)
	}
	q.block(nil)
	close(hold)
	submit(t, f, 50, 50)
	f.settled(t)
	c.check(t, 100)
	if s := f.stats(t); s.Failure != nil || !s.QueueAvailable {
		t.Errorf("failure %v, available %v", s.Failure, s.QueueAvailable)
	}
}

// A decision about a dead letter that is written after its person was told that the outcome is not known is carried out.
func TestLateRedriveRuns(t *testing.T) {
	q := &faultyQueue{WorkQueue: memoryQueue(t)}
	f := newFlow(t, q)
	f.options.OperationTimeout = 50 * time.Millisecond
	f.start(t)
	c := newCrew()
	var healed atomic.Bool
	c.join(t, f, "w0", func(context.Context, protocol.Delivery) endpoint.Result {
		if healed.Load() {
			return endpoint.Result{Outcome: protocol.Confirmed}
		}
		return endpoint.Result{Outcome: protocol.Rejected}
	})
	submit(t, f, 0, 1)
	var letters []queue.DeadLetter
	eventually(t, "the job is a dead letter", func() bool {
		letters, _ = f.producer.ListDeadLetters(t.Context(), 0, 10)
		return len(letters) == 1
	})
	healed.Store(true)
	hold := make(chan struct{})
	q.block(hold)
	if err := f.producer.Redrive(t.Context(), letters[0].JobRef, "test"); !errors.Is(err, endpoint.ErrUnavailable) {
		t.Errorf("re-driving into a hanging queue: %v", err)
	}
	q.block(nil)
	close(hold)
	eventually(t, "the job is confirmed", func() bool { return f.stats(t).Confirmed == 1 })
}

// A decision whose answer is lost has happened or not; either way the controller learns of it without a load.
func TestDecisionWithALostAnswerIsCarriedOut(t *testing.T) {
	q := &faultyQueue{WorkQueue: memoryQueue(t)}
	f := newFlow(t, q)
	f.start(t)
	c := newCrew()
	var healed atomic.Bool
	c.join(t, f, "w0", func(context.Context, protocol.Delivery) endpoint.Result {
		if healed.Load() {
			return endpoint.Result{Outcome: protocol.Confirmed}
		}
		return endpoint.Result{Outcome: protocol.Rejected}
	})
	submit(t, f, 0, 2)
	var letters []queue.DeadLetter
	eventually(t, "the jobs are dead letters", func() bool {
		letters, _ = f.producer.ListDeadLetters(t.Context(), 0, 10)
		return len(letters) == 2
	})
	healed.Store(true)
	q.loseAnswers(2)
	if err := f.producer.Redrive(t.Context(), letters[0].JobRef, "test"); err != nil {
		t.Errorf("re-driving with lost answers: %v", err)
	}
	eventually(t, "the job is confirmed", func() bool { return f.stats(t).Confirmed == 1 })
	q.loseAnswers(2)
	if err := f.producer.Drop(t.Context(), letters[1].JobRef, "test"); err != nil {
		t.Errorf("dropping with lost answers: %v", err)
	}
	eventually(t, "no dead letter is left", func() bool { return f.stats(t).DeadLetters == 0 })
	if err := f.producer.Drop(t.Context(), letters[1].JobRef, "test"); !errors.Is(err, endpoint.ErrNotFound) {
		t.Errorf("dropping what is none: %v", err)
	}
}

// damagedQueue cannot read the row of any dead letter.
type damagedQueue struct{ queue.WorkQueue }

func (damagedQueue) Drop(context.Context, queue.Epoch, queue.JobRef, string) error {
	return fmt.Errorf("%w: a damaged row", queue.ErrConflict)
}

// A decision that no repeat can carry out is told at once, and not tried for ever.
func TestDecisionAboutADamagedRowEnds(t *testing.T) {
	f := newFlow(t, damagedQueue{memoryQueue(t)})
	f.options.OperationTimeout = time.Second
	f.start(t)
	submit(t, f, 0, 1)
	for range 2 { // the first one does not stand in the way of the second
		if err := f.producer.Drop(t.Context(), queue.JobRef{MessageID: "damaged", StoreSeq: 7}, "test"); !errors.Is(err, queue.ErrConflict) {
			t.Errorf("dropping a damaged row: %v", err)
		}
	}
}

// twoLetters is a flow whose two jobs are dead letters, over a queue that can be told to fail, and the first of them.
func twoLetters(t *testing.T) (*flow, *faultyQueue, queue.JobRef) {
	t.Helper()
	q := &faultyQueue{WorkQueue: memoryQueue(t)}
	f := newFlow(t, q)
	f.start(t)
	newCrew().join(t, f, "w0", func(context.Context, protocol.Delivery) endpoint.Result {
		return endpoint.Result{Outcome: protocol.Rejected}
	})
	submit(t, f, 0, 2)
	eventually(t, "the jobs are dead letters", func() bool { return f.stats(t).DeadLetters == 2 })
	letters, err := f.producer.ListDeadLetters(t.Context(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return f, q, letters[0].JobRef
}

// A dead letter that turns out to be finished is counted out once, whatever becomes of the queue's answers.
func TestClaimedLetterIsCountedOut(t *testing.T) {
	for name, trouble := range map[string]func(*faultyQueue){
		"the answer to its confirm is lost": func(q *faultyQueue) { q.loseAnswers(2) },
		"it cannot be looked up":            func(q *faultyQueue) { q.failLookups(2) },
	} {
		t.Run(name, func(t *testing.T) {
			f, q, letter := twoLetters(t)
			trouble(q)
			if err := f.producer.Resolve(t.Context(), letter); err != nil {
				t.Fatal(err)
			}
			eventually(t, "one dead letter is left", func() bool { return f.stats(t).DeadLetters == 1 })
			if n := f.stats(t).Confirmed; n != 1 {
				t.Errorf("%d jobs are confirmed, want 1", n)
			}
		})
	}
}

// What is found out about one job is not lost because another one cannot be looked up.
func TestClaimedLettersAreCountedOutTogether(t *testing.T) {
	f, q, _ := twoLetters(t)
	letters, err := f.producer.ListDeadLetters(t.Context(), 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	q.failLookups(1)
	if err := f.producer.Resolve(t.Context(), letters[0].JobRef, letters[1].JobRef); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are confirmed", func() bool { return f.stats(t).Confirmed == 2 })
	if n := f.stats(t).DeadLetters; n != 0 {
		t.Errorf("%d dead letters are counted, there is none", n)
	}
}

// Two workers may have finished the same job. However the queue fails meanwhile, it is counted out of the dead letters once.
func TestLetterClaimedTwiceIsCountedOutOnce(t *testing.T) {
	f, q, letter := twoLetters(t)
	before := q.applied()
	q.set(errors.New("no connection"), nil)
	for range 2 {
		if err := f.producer.Resolve(t.Context(), letter); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "both have been tried", func() bool { return q.applied() >= before+6 })
	q.set(nil, nil)
	eventually(t, "both questions are answered", func() bool { return f.producer.Idle(t.Context()) })
	if s := f.stats(t); s.DeadLetters != 1 || s.Confirmed != 1 {
		t.Errorf("%d dead letters and %d confirmed jobs are counted, want one of each", s.DeadLetters, s.Confirmed)
	}
}

// A dead letter is confirmed or dropped, and what is told of it is what happened.
func TestLetterIsNotDroppedWhileItIsConfirmed(t *testing.T) {
	f, q, letter := twoLetters(t)
	before, hold := q.applied(), make(chan struct{})
	q.block(hold)
	if err := f.producer.Resolve(t.Context(), letter); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its confirm is on its way", func() bool { return q.applied() > before })
	done := make(chan struct{})
	var dropped error
	go func() {
		defer close(done)
		dropped = f.producer.Drop(t.Context(), letter, "test")
	}()
	select { // one that does not wait is quick
	case <-done:
	case <-time.After(100 * time.Millisecond):
	}
	q.block(nil)
	close(hold)
	<-done
	eventually(t, "the question is answered", func() bool { return f.producer.Idle(t.Context()) })
	if s := f.stats(t); s.DeadLetters != 1 || (s.Confirmed == 1) == (dropped == nil) {
		t.Errorf("%d dead letters and %d confirmed jobs are counted; dropping: %v", s.DeadLetters, s.Confirmed, dropped)
	}
}

// Of two decisions about one dead letter, one happens, whatever becomes of the answers.
func TestOneDecisionAtATime(t *testing.T) {
	f, q, letter := twoLetters(t)
	q.loseAnswers(2)
	answers := make(chan error, 2)
	for range 2 {
		go func() { answers <- f.producer.Drop(t.Context(), letter, "test") }()
	}
	dropped := 0
	for range 2 {
		switch err := <-answers; {
		case err == nil:
			dropped++
		case !errors.Is(err, endpoint.ErrNotFound):
			t.Errorf("dropping: %v", err)
		}
	}
	if n := f.stats(t).DeadLetters; n != 1 || dropped != 1 {
		t.Errorf("%d of two decisions happened, %d dead letters are left of 2", dropped, n)
	}
}

// Loads are retried until one succeeds; meanwhile submitters are told to come back (B-235).
func TestLoadIsRetried(t *testing.T) {
	q := &faultyQueue{WorkQueue: memoryQueue(t), load: errors.New("no volume")}
	f := newFlow(t, q)
	f.start(t)
	job := jobNamed("early")
	if _, err := f.producer.Submit(t.Context(), job, endpoint.Digest(job)); !errors.Is(err, endpoint.ErrUnavailable) {
		t.Errorf("submitting before the load: %v", err)
	}
	if s := f.stats(t); s.Phase != delivery.PhaseLoading || s.QueueError == "" {
		t.Errorf("phase %s, error %q", s.Phase, s.QueueError)
	}
	q.set(nil, nil)
	submit(t, f, 0, 1)
}

// A caller that goes away does not keep its credit: its job is stored, or not, and the token comes back.
func TestCallersThatGoAwayLeakNoCredit(t *testing.T) {
	q := &faultyQueue{WorkQueue: memoryQueue(t)}
	f := newFlow(t, q)
	f.options.Credits = 4
	f.start(t)
	submit(t, f, 0, 1)
	for i := range 20 {
		hold := make(chan struct{})
		q.block(hold)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			job := jobNamed(string(rune('a' + i)))
			_, _ = f.producer.Submit(ctx, job, endpoint.Digest(job))
		}()
		cancel()
		<-done
		q.block(nil)
		close(hold)
	}
	submit(t, f, 100, 50)
}

func TestSuspendedFlowRefusesAndDispatchesNothing(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.options.Intake = delivery.SetIntake{Open: true}
	f.start(t)
	c := newCrew()
	worker, _ := c.join(t, f, "w0", succeed)
	submit(t, f, 0, 20)
	eventually(t, "the worker is bound", func() bool { return worker.Status().Registered })
	f.producer.SetIntake(delivery.SetIntake{})
	job := jobNamed("late")
	if _, err := f.producer.Submit(t.Context(), job, endpoint.Digest(job)); !errors.Is(err, endpoint.ErrSuspended) {
		t.Errorf("submitting to a suspended flow: %v", err)
	}
	if n := c.finished(); n != 0 {
		t.Errorf("%d jobs ran in a flow that does not dispatch", n)
	}
	f.producer.SetIntake(delivery.SetIntake{Open: true, Dispatch: true})
	f.settled(t)
	c.check(t, 20)
}

func TestBackPressureHasATypedError(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.options.Config.BacklogJobs, f.options.Config.BacklogBytes = 5, 1<<30
	f.options.CreditWait = 20 * time.Millisecond
	f.start(t)
	submit(t, f, 0, 5)
	job := jobNamed("one too many")
	_, err := f.producer.Submit(t.Context(), job, endpoint.Digest(job))
	if busy, ok := errors.AsType[*endpoint.NoCreditError](err); !ok || busy.RetryAfter <= 0 {
		t.Errorf("submitting to a full backlog: %v", err)
	}
	if !f.stats(t).BacklogFull {
		t.Error("the figures do not say so")
	}
}

// What was refused under back-pressure is not kept in memory, even if nothing moves afterwards.
func TestRefusedPayloadsAreLetGo(t *testing.T) {
	f := newFlow(t, memoryQueue(t))
	f.options.Config.BacklogJobs, f.options.Config.BacklogBytes = 1, 1<<30
	f.options.CreditWait = time.Millisecond
	f.start(t)
	submit(t, f, 0, 1)
	freed := make(chan struct{})
	func() {
		payload := make([]byte, 1<<20)
		runtime.AddCleanup(&payload[0], func(freed chan struct{}) { close(freed) }, freed)
		job := protocol.Job{MessageID: "refused", Payload: payload}
		_, err := f.producer.Submit(t.Context(), job, endpoint.Digest(job))
		if _, busy := errors.AsType[*endpoint.NoCreditError](err); !busy {
			t.Errorf("submitting to a full backlog: %v", err)
		}
	}()
	eventually(t, "the payload is collected", func() bool {
		runtime.GC()
		select {
		case <-freed:
			return true
		default:
			return false
		}
	})
}
