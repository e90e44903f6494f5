package endpoint

import (
	"time"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// RunningSet remembers the handlers in progress beyond the end of this process. Its methods are quick: they are called
// between two events of the machine.
type RunningSet interface {
	// Begin records a run before its handler is invoked. After an error the handler is not invoked: the job is handed back, and the worker
	// takes no jobs until Check succeeds.
	Begin(flow string, claim protocol.Claim) error
	// End records that the handler of a MessageID is over.
	End(messageID string)
	// Check tries again after a failed Begin.
	Check() error
}

// LeftRun is a handler that an earlier process of this pod began, as its RunningSet has kept it.
type LeftRun struct {
	Flow string
	// Claim is in state ClaimLost. Without a ticket it cannot be claimed, and holds its slot all the same.
	Claim protocol.Claim
}

// Forgetful remembers nothing: a new process knows of no handler of this one.
var Forgetful RunningSet = forgetful{}

type forgetful struct{}

func (forgetful) Begin(string, protocol.Claim) error { return nil }
func (forgetful) End(string)                         {}
func (forgetful) Check() error                       { return nil }

// checkAgain is how long a worker waits after its running set could not be written.
const checkAgain = time.Second

// holdLeft tells the machine of what an earlier process left behind, before anything else. What belongs to a flow that this worker does
// not pull from has nobody to be claimed at, and holds its slot like the others.
func (w *Worker) holdLeft() {
	byFlow := map[string][]protocol.Claim{}
	for _, left := range w.options.Left {
		flow, claim := left.Flow, left.Claim
		if w.links[flow] == nil {
			flow, claim.Ticket = w.options.Flows[0].Flow, protocol.Ticket{}
		}
		byFlow[flow] = append(byFlow[flow], claim)
	}
	for _, source := range w.options.Flows {
		if claims := byFlow[source.Flow]; len(claims) > 0 {
			w.log.Info("an earlier process of this pod left handlers behind; they keep their slots", "flow", source.Flow, "handlers", len(claims))
			w.step(delivery.HoldClaims{Flow: source.Flow, Claims: claims})
		}
	}
}

// AppReplaced tells that the app process is gone that ran what an earlier process left behind.
func (w *Worker) AppReplaced() { w.loop.post(func() { w.step(delivery.OrphansGone{}) }) }

// begin records a run. If that fails, its job goes back and no other is taken before the running set can be written again.
func (w *Worker) begin(start *delivery.StartHandler) bool {
	d := &start.Delivery
	err := w.options.Running.Begin(start.Flow, protocol.Claim{
		MessageID: d.Job.MessageID, StoreSeq: d.StoreSeq, Attempt: d.Attempt, Ticket: d.Ticket, State: protocol.ClaimLost,
	})
	if err == nil {
		return true
	}
	w.post(delivery.HandlerDone{Run: start.Run, Outcome: protocol.HandedBack, Reason: "the worker cannot write its running set"})
	if w.unwritable == nil {
		w.log.Error(err, "the worker takes no jobs until it can write its running set")
		w.setUnwritable(err)
		w.post(delivery.AppReady{Ready: false})
		w.handlers.Go(w.checkRunningSet)
	}
	return false
}

// checkRunningSet tries until the set can be written again.
func (w *Worker) checkRunningSet() {
	for {
		select {
		case <-w.runCtx.Done():
			return
		case <-w.options.Clock.After(checkAgain):
		}
		if w.options.Running.Check() == nil {
			w.loop.post(func() {
				w.log.Info("the running set can be written again")
				w.setUnwritable(nil)
				w.step(delivery.AppReady{Ready: w.appReady})
			})
			return
		}
	}
}

func (w *Worker) setUnwritable(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unwritable = err
}

// RunningSetError is why the worker takes no jobs although the app answers, or nil.
func (w *Worker) RunningSetError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unwritable
}
