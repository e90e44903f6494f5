package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/transport"
)

// Bounds of ?wait=confirmed.
const (
	defaultWait = 30 * time.Second
	maxWait     = 5 * time.Minute
)

// structuredOverhead is what JSON and base64 may add to a payload.
const structuredOverhead = 64 << 10

// outcome is the answer about one job.
type outcome struct {
	ID       string `json:"id"`
	Sequence int64  `json:"sequence,omitempty"`
	// State is stored, confirmed, dead-lettered or dropped.
	State string `json:"state,omitempty"`
	// New is false for a repeat of an id that was known already.
	New bool `json:"new"`

	// Status and Problem are set in the answer to a batch only.
	Status  int      `json:"status,omitempty"`
	Problem *problem `json:"problem,omitempty"`
}

func (i *Intake) submit(w http.ResponseWriter, r *http.Request, by transport.Submitter) error {
	wait, err := waitOf(r.URL.Query())
	if err != nil {
		return err
	}
	answers, batch, err := i.take(w, r, by, wait)
	if err != nil {
		return err
	}
	if wait == 0 {
		defer acknowledge(answers)
		i.write(w, answers, batch)
		return nil
	}
	acknowledge(answers) // the submitter stays, but for how long is not ours to know
	i.await(r.Context(), wait, answers)
	i.write(w, answers, batch)
	return nil
}

// take reads and stores what a request carries. Its body counts until then and no longer: who waits for a confirmation, which
// may take minutes, must not keep others from submitting.
func (i *Intake) take(w http.ResponseWriter, r *http.Request, by transport.Submitter, wait time.Duration) (answers []answer, batch bool, err error) {
	body, release, err := i.read(w, r)
	if err != nil {
		return nil, false, err
	}
	defer release()
	jobs, batch, err := decodeJobs(r.Header, by.Subject, body)
	if err != nil {
		return nil, false, err
	}
	extendDeadline(w, wait+i.options.StoreTimeout)
	return i.store(r.Context(), jobs), batch, nil
}

// waitOf returns how long to wait for the confirmation, 0 for not at all.
func waitOf(query url.Values) (time.Duration, error) {
	switch query.Get("wait") {
	case "":
		return 0, nil
	case "confirmed":
	default:
		return 0, malformed("wait is %q; the only thing to wait for is \"confirmed\"", query.Get("wait"))
	}
	text := query.Get("timeout")
	if text == "" {
		return defaultWait, nil
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait <= 0 || wait > maxWait {
		return 0, malformed("timeout is a duration such as 30s, at most %s", maxWait)
	}
	return wait, nil
}

// extendDeadline gives the answer as much time as it may need; the server's own limits are for the quick ones. The read deadline
// counts as well: when it passes, the server takes the caller for gone.
func extendDeadline(w http.ResponseWriter, by time.Duration) {
	control := http.NewResponseController(w)
	at := time.Now().Add(by + 10*time.Second) //nolint:forbidigo // an I/O deadline
	_ = control.SetReadDeadline(at)
	_ = control.SetWriteDeadline(at)
}

// read takes the body in, bounded, and holds its share of the memory until release.
func (i *Intake) read(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		// A handler would get the bytes without a word about their coding.
		w.Header().Set("Accept-Encoding", "identity")
		return nil, nil, problemEncoded
	}
	limit := int64(i.options.MaxPayload())
	switch mediaType(r.Header) {
	case typeEvent:
		limit = limit*4/3 + structuredOverhead
	case typeEventBatch:
		limit = max(limit*4/3+structuredOverhead, protocol.MaxPayloadBytes)
	}
	if r.ContentLength > limit {
		return nil, nil, tooLarge(limit)
	}
	share := r.ContentLength
	if share < 0 {
		share = limit
	}
	if !i.memory.TryAcquire(share) {
		return nil, nil, problemBusy.after(time.Second)
	}
	release = func() { i.memory.Release(share) }
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		release()
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, nil, tooLarge(limit)
		}
		return nil, nil, newProblem(http.StatusBadRequest, "truncated", "The body ended early", "Repeat the request; nothing was stored.")
	}
	return body, release, nil
}

func tooLarge(limit int64) problem {
	return newProblem(http.StatusRequestEntityTooLarge, "too-large", "The body is too large",
		fmt.Sprintf("The limit is %d bytes (spec.payload.maxBytes of the flow). Store large data elsewhere and submit a reference.", limit))
}

// answer is what became of one job of a request. It holds no payload once it is acknowledged.
type answer struct {
	id      string
	receipt *endpoint.Receipt // nil without one, and once it is acknowledged
	stored  *protocol.Stored  // what the receipt says, or the look-up of a repeat that got none
	state   string
	err     error
}

// store submits what could be decoded, and finds out which of those that were turned away are stored already.
func (i *Intake) store(ctx context.Context, jobs []decoded) []answer {
	ctx, cancel := context.WithTimeout(ctx, i.options.StoreTimeout)
	defer cancel()
	answers := make([]answer, len(jobs))
	var entries []endpoint.Submission
	var at []int
	limit := i.options.MaxPayload()
	for n, one := range jobs {
		answers[n] = answer{id: one.job.MessageID, err: one.err}
		if len(one.job.Payload) > limit {
			answers[n].err = tooLarge(int64(limit))
		}
		if answers[n].err == nil {
			entries = append(entries, endpoint.Submission{Job: one.job, Digest: endpoint.Digest(one.job)})
			at = append(at, n)
		}
	}
	if len(entries) == 0 {
		return answers
	}
	for n, got := range i.options.Flow.SubmitBatch(ctx, entries) {
		a := &answers[at[n]]
		a.receipt, a.err = got.Receipt, got.Err
		switch {
		case a.receipt != nil:
			i.readout(ctx, a)
		case closed(a.err):
			i.recall(ctx, a, entries[n].Digest)
		}
	}
	return answers
}

// readout takes over what the receipt says.
func (i *Intake) readout(ctx context.Context, a *answer) {
	stored := a.receipt.Stored
	a.stored = &stored
	switch stored.Verdict {
	case protocol.AlreadyConfirmed:
		a.state = queue.StatusConfirmed
	case protocol.AlreadyDeadLettered:
		a.state = i.whereabouts(ctx, a.id)
	case protocol.BodyMismatch:
		a.err = problemMismatch
	default:
		a.state = queue.StatusStored
	}
}

func acknowledge(answers []answer) {
	for n := range answers {
		if receipt := answers[n].receipt; receipt != nil {
			answers[n].receipt = nil
			receipt.Acknowledge()
		}
	}
}

// await waits for the end of every job that is stored and not settled, all within one deadline.
func (i *Intake) await(ctx context.Context, wait time.Duration, answers []answer) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for n := range answers {
		a := &answers[n]
		if a.err != nil || a.state != queue.StatusStored {
			continue
		}
		settled, err := i.options.Flow.Wait(ctx, queue.JobRef{MessageID: a.stored.MessageID, StoreSeq: a.stored.StoreSeq})
		switch {
		case err != nil:
			a.err = newProblem(http.StatusGatewayTimeout, "not-confirmed-yet", "The job is stored, but not confirmed yet",
				"It will be processed without a repeat of this request. Look it up under the Location of this answer.").about(a.id, a.stored.StoreSeq)
		case settled.DeadLettered:
			a.state = queue.StatusDeadLettered
			a.err = newProblem(http.StatusConflict, "dead-lettered", "The job failed for good",
				"It is kept as a dead letter until a person re-drives or drops it: "+settled.Reason).about(a.id, a.stored.StoreSeq)
		default:
			a.state = queue.StatusConfirmed
		}
	}
}

// write answers a single job, or lists the answers of a batch: 200 if all are stored, else 207.
func (i *Intake) write(w http.ResponseWriter, answers []answer, batch bool) {
	if i.options.Volatile {
		w.Header().Set("Workpulling-Durability", "volatile")
	}
	if !batch {
		i.writeOne(w, answers[0])
		return
	}
	status := http.StatusOK
	list := make([]outcome, len(answers))
	for n, a := range answers {
		list[n] = a.outcome()
		list[n].Status = i.status(a)
		if a.err != nil {
			p := problemOf(a.err)
			list[n].Status, list[n].Problem = p.Status, &p
			status = http.StatusMultiStatus
		}
	}
	writeJSON(w, status, "application/json", list)
}

func (i *Intake) writeOne(w http.ResponseWriter, a answer) {
	if a.stored != nil {
		w.Header().Set("Location", i.location(a.id))
	}
	if a.err != nil {
		problemOf(a.err).write(w)
		return
	}
	writeJSON(w, i.status(a), "application/json", a.outcome())
}

func (a answer) outcome() outcome {
	out := outcome{ID: a.id, State: a.state}
	if a.stored != nil {
		out.Sequence, out.New = a.stored.StoreSeq, a.stored.Verdict == protocol.StoredNew
	}
	return out
}

// status is 201 for a new job, 202 where it is not durable, and 200 for a known one.
func (i *Intake) status(a answer) int {
	switch {
	case a.stored == nil || a.stored.Verdict != protocol.StoredNew:
		return http.StatusOK
	case i.options.Volatile:
		return http.StatusAccepted
	default:
		return http.StatusCreated
	}
}

func (i *Intake) location(id string) string {
	return "/v1/flows/" + i.options.Name + "/jobs/" + url.PathEscape(id)
}
