package intake

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/transport"
)

// Bounds of one page of a list.
const (
	defaultPage = 100
	maxPage     = 1000
)

// letterView is one dead letter, without its payload.
type letterView struct {
	ID           string    `json:"id"`
	Sequence     int64     `json:"sequence"`
	PayloadBytes int       `json:"payloadBytes"`
	Attempts     int       `json:"attempts"`
	Reason       string    `json:"reason"`
	Since        time.Time `json:"since"`
}

// page is one page of a list; Next is the after of the following one, 0 on the last.
type page[T any] struct {
	Items []T   `json:"items"`
	Next  int64 `json:"next,omitempty"`
}

// pageOf reads which page is asked for.
func pageOf(r *http.Request) (after int64, limit int, err error) {
	after, err = number(r.URL.Query().Get("after"), 0, protocol.MaxSequence)
	if err != nil {
		return 0, 0, err
	}
	most, err := number(r.URL.Query().Get("limit"), defaultPage, maxPage)
	return after, int(most), err
}

func viewOf(l queue.DeadLetter) letterView {
	return letterView{
		ID: l.MessageID, Sequence: l.StoreSeq, PayloadBytes: l.PayloadBytes, Attempts: l.Attempts, Reason: l.Reason, Since: l.Since,
	}
}

func (i *Intake) listDeadLetters(w http.ResponseWriter, r *http.Request, _ transport.Submitter) error {
	after, limit, err := pageOf(r)
	if err != nil {
		return err
	}
	chosen, _, err := choiceOf(r.URL.Query())
	if err != nil {
		return err
	}
	letters, next, err := i.scan(r.Context(), after, limit, chosen)
	if err != nil {
		return err
	}
	out := page[letterView]{Items: make([]letterView, 0, len(letters)), Next: next}
	for _, l := range letters {
		out.Items = append(out.Items, viewOf(l))
	}
	writeJSON(w, http.StatusOK, typeJSON, out)
	return nil
}

// number parses a decimal parameter in 0…most.
func number(text string, otherwise, most int64) (int64, error) {
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, malformed("a number is missing or outside 0…%d", most)
	}
	return n, nil
}

func (i *Intake) redrive(w http.ResponseWriter, r *http.Request, by transport.Submitter) error {
	return i.decide(w, r, by, queue.AuditRedrive, i.letter, i.options.Flow.Redrive)
}

func (i *Intake) drop(w http.ResponseWriter, r *http.Request, by transport.Submitter) error {
	return i.decide(w, r, by, queue.AuditDrop, i.letter, i.options.Flow.Drop)
}

// decide carries out a person's decision about one job and leaves an audit line in the log and in the queue.
func (i *Intake) decide(w http.ResponseWriter, r *http.Request, by transport.Submitter, deed string,
	find func(*http.Request) (queue.JobRef, error), do func(context.Context, queue.JobRef, string) error,
) error {
	ref, err := find(r)
	if err != nil {
		return err
	}
	reason, err := reasonOf(w, r)
	if err != nil {
		return err
	}
	if err := do(r.Context(), ref, auditOf(by, reason)); err != nil {
		return err
	}
	i.options.Log.Info("A person decided about a job", "deed", deed, "by", by.Subject, "reason", reason,
		"messageID", ref.MessageID, "sequence", ref.StoreSeq)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// auditOf says who decided and why.
func auditOf(by transport.Submitter, reason string) string {
	if reason == "" {
		return "by " + by.Subject
	}
	return "by " + by.Subject + ": " + reason
}

// letter finds the dead letter that the path names by its sequence.
func (i *Intake) letter(r *http.Request) (queue.JobRef, error) {
	l, err := i.letterOf(r)
	return l.JobRef, err
}

func (i *Intake) letterOf(r *http.Request) (queue.DeadLetter, error) {
	seq, err := sequenceOf(r)
	if err != nil {
		return queue.DeadLetter{}, err
	}
	letters, err := i.options.Flow.ListDeadLetters(r.Context(), seq-1, 1)
	if err != nil {
		return queue.DeadLetter{}, err
	}
	if len(letters) == 0 || letters[0].StoreSeq != seq {
		return queue.DeadLetter{}, endpoint.ErrNotFound
	}
	return letters[0], nil
}

func sequenceOf(r *http.Request) (int64, error) {
	seq, err := number(r.PathValue("sequence"), 0, protocol.MaxSequence)
	if err != nil || seq == 0 {
		return 0, malformed("the path names a job by its sequence, a positive number")
	}
	return seq, nil
}

// reasonOf reads an optional {"reason": "…"}.
func reasonOf(w http.ResponseWriter, r *http.Request) (string, error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<10))
	if err != nil {
		return "", malformed("the body is too long")
	}
	if len(raw) == 0 {
		return "", nil
	}
	var body struct {
		Reason string `json:"reason"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return "", malformed(`the body is not {"reason": "…"}`)
	}
	return protocol.ClipReason(body.Reason), nil
}
