package intake

import (
	"net/http"
	"time"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/transport"
)

// orphanView is one job that its producer never acknowledged (G-X16).
type orphanView struct {
	ID       string    `json:"id"`
	Sequence int64     `json:"sequence"`
	State    string    `json:"state"`
	StoredAt time.Time `json:"storedAt"`
}

func (i *Intake) listOrphans(w http.ResponseWriter, r *http.Request, _ transport.Submitter) error {
	after, limit, err := pageOf(r)
	if err != nil {
		return err
	}
	orphans, err := i.options.Flow.ListOrphans(r.Context(), after, limit)
	if err != nil {
		return err
	}
	out := page[orphanView]{Items: make([]orphanView, 0, len(orphans))}
	for _, o := range orphans {
		out.Items = append(out.Items, orphanView{ID: o.MessageID, Sequence: o.StoreSeq, State: o.Status, StoredAt: o.StoredAt})
	}
	if len(orphans) == limit && limit > 0 {
		out.Next = orphans[len(orphans)-1].StoreSeq
	}
	writeJSON(w, http.StatusOK, typeJSON, out)
	return nil
}

func (i *Intake) acceptOrphan(w http.ResponseWriter, r *http.Request, by transport.Submitter) error {
	return i.decide(w, r, by, queue.AuditAcceptOrphan, i.orphan, i.options.Flow.AcceptOrphan)
}

// orphan finds the orphan that the path names by its sequence.
func (i *Intake) orphan(r *http.Request) (queue.JobRef, error) {
	seq, err := sequenceOf(r)
	if err != nil {
		return queue.JobRef{}, err
	}
	orphans, err := i.options.Flow.ListOrphans(r.Context(), seq-1, 1)
	if err != nil {
		return queue.JobRef{}, err
	}
	if len(orphans) == 0 || orphans[0].StoreSeq != seq {
		return queue.JobRef{}, endpoint.ErrNotFound
	}
	return orphans[0].JobRef, nil
}

// auditView is one deed of a person.
type auditView struct {
	Number   uint64    `json:"number"`
	At       time.Time `json:"at"`
	Action   string    `json:"action"`
	ID       string    `json:"id"`
	Sequence int64     `json:"sequence"`
	Text     string    `json:"text"`
}

func (i *Intake) listAudit(w http.ResponseWriter, r *http.Request, _ transport.Submitter) error {
	after, limit, err := pageOf(r)
	if err != nil {
		return err
	}
	lines, err := i.options.Flow.ListAudit(r.Context(), uint64(after), limit)
	if err != nil {
		return err
	}
	out := page[auditView]{Items: make([]auditView, 0, len(lines))}
	for _, l := range lines {
		out.Items = append(out.Items, auditView{
			Number: l.Number, At: l.At, Action: l.Action, ID: l.MessageID, Sequence: l.StoreSeq, Text: l.Text,
		})
	}
	if len(lines) == limit && limit > 0 {
		out.Next = int64(lines[len(lines)-1].Number)
	}
	writeJSON(w, http.StatusOK, typeJSON, out)
	return nil
}
