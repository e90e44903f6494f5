package intake

import (
	"context"
	"net/http"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/transport"
)

// jobView is the answer to a look-up.
type jobView struct {
	ID       string `json:"id"`
	Sequence int64  `json:"sequence"`
	// State is stored, confirmed, dead-lettered or dropped.
	State    string `json:"state"`
	Attempts int    `json:"attempts"`
	// Reason is why it is a dead letter.
	Reason string `json:"reason,omitempty"`
}

// look tells the state of a job. With ?wait=confirmed it tells it when the job is over, or when the time is up.
func (i *Intake) look(w http.ResponseWriter, r *http.Request, _ transport.Submitter) error {
	id := r.PathValue("id")
	if err := protocol.CheckID("message id", id); err != nil {
		return err
	}
	wait, err := waitOf(r.URL.Query())
	if err != nil {
		return err
	}
	state, err := i.options.Flow.Lookup(r.Context(), id)
	if err == nil && wait > 0 && state.Status == queue.StatusStored {
		extendDeadline(w, wait)
		ctx, cancel := context.WithTimeout(r.Context(), wait)
		defer cancel()
		_, _ = i.options.Flow.Wait(ctx, queue.JobRef{MessageID: id, StoreSeq: state.StoreSeq}) // whatever it says: the queue has the last word
		state, err = i.options.Flow.Lookup(r.Context(), id)
	}
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, typeJSON, jobView{
		ID: id, Sequence: state.StoreSeq, State: state.Status, Attempts: state.Attempts, Reason: state.Reason,
	})
	return nil
}
