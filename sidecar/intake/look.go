package intake

import (
	"net/http"

	"github.com/workpulling/workpulling/runtime/protocol"
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

func (i *Intake) look(w http.ResponseWriter, r *http.Request, _ transport.Submitter) error {
	id := r.PathValue("id")
	if err := protocol.CheckID("message id", id); err != nil {
		return err
	}
	state, err := i.options.Flow.Lookup(r.Context(), id)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, typeJSON, jobView{
		ID: id, Sequence: state.StoreSeq, State: state.Status, Attempts: state.Attempts, Reason: state.Reason,
	})
	return nil
}
