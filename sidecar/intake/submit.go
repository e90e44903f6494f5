package intake

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
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

// outcomeBytes is about how long an outcome is.
const outcomeBytes = 128

func (i *Intake) submit(w http.ResponseWriter, r *http.Request, by transport.Submitter) error {
	wait, err := waitOf(r.URL.Query())
	if err != nil {
		return err
	}
	kind := mediaType(r.Header)
	if kind == typeLines {
		return i.submitLines(w, r, wait)
	}
	answers, err := i.take(w, r, kind, by, wait)
	if err != nil {
		return err
	}
	batch := kind == typeEventBatch
	if wait == 0 {
		defer acknowledge(answers)
		i.write(w, answers, batch)
		return nil
	}
	acknowledge(answers) // the submitter stays, but for how long is not ours to know
	i.awaitAll(r.Context(), wait, answers)
	i.write(w, answers, batch)
	return nil
}

// take reads and stores what a request carries. Its body counts until then and no longer: who waits for a confirmation, which
// may take minutes, must not keep others from submitting.
func (i *Intake) take(w http.ResponseWriter, r *http.Request, kind string, by transport.Submitter, wait time.Duration) ([]answer, error) {
	body, release, err := i.read(w, r, kind)
	if err != nil {
		return nil, err
	}
	defer release()
	jobs, err := decodeJobs(r.Header, kind, scopeOf(by), body)
	if err != nil {
		return nil, err
	}
	extendDeadline(w, wait+i.options.StoreTimeout)
	return i.store(r.Context(), jobs), nil
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

// answer is what became of one job of a request. It holds no payload once it is acknowledged.
type answer struct {
	id      string
	receipt *endpoint.Receipt // nil without one, and once it is acknowledged
	stored  protocol.Stored   // what the receipt says, or the look-up of a repeat that got none; the zero value if neither
	state   string
	err     error
}

// store submits what could be decoded, and finds out which of those that were turned away are stored already.
func (i *Intake) store(ctx context.Context, jobs []decoded) []answer {
	ctx, cancel := context.WithTimeout(ctx, i.options.StoreTimeout)
	defer cancel()
	answers := i.submitJobs(ctx, jobs)
	for n := range answers {
		if closed(answers[n].err) {
			i.recall(ctx, &answers[n], endpoint.Digest(jobs[n].job))
		}
	}
	return answers
}

// submitJobs submits what could be decoded.
func (i *Intake) submitJobs(ctx context.Context, jobs []decoded) []answer {
	answers := make([]answer, len(jobs))
	entries := make([]endpoint.Submission, 0, len(jobs))
	at := make([]int, 0, len(jobs))
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
		if a.receipt, a.err = got.Receipt, got.Err; a.receipt != nil {
			i.readout(ctx, a)
		}
	}
	return answers
}

// readout takes over what the receipt says.
func (i *Intake) readout(ctx context.Context, a *answer) {
	a.stored = a.receipt.Stored
	switch a.stored.Verdict {
	case protocol.AlreadyConfirmed:
		a.state = queue.StatusConfirmed
	case protocol.AlreadyDeadLettered:
		a.state = i.whereabouts(ctx, a.id)
	case protocol.BodyMismatch:
		a.err = kindMismatch.problem()
	default:
		a.state = queue.StatusStored
	}
}

func acknowledge(answers []answer) {
	receipts := make([]*endpoint.Receipt, 0, len(answers))
	for n := range answers {
		if receipt := answers[n].receipt; receipt != nil {
			answers[n].receipt = nil
			receipts = append(receipts, receipt)
		}
	}
	endpoint.AcknowledgeAll(receipts)
}

func (a *answer) acknowledge() {
	if receipt := a.receipt; receipt != nil {
		a.receipt = nil
		receipt.Acknowledge()
	}
}

// known tells whether there is such a job.
func (a *answer) known() bool { return a.stored.StoreSeq != 0 }

// open tells whether the job is stored and not settled.
func (a *answer) open() bool { return a.err == nil && a.state == queue.StatusStored }

// awaitAll waits for the end of every job that is open, all within one deadline.
func (i *Intake) awaitAll(ctx context.Context, wait time.Duration, answers []answer) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for n := range answers {
		if answers[n].open() {
			i.await(ctx, &answers[n])
		}
	}
}

// await waits for the end of an open job, until ctx ends.
func (i *Intake) await(ctx context.Context, a *answer) {
	settled, err := i.options.Flow.Wait(ctx, queue.JobRef{MessageID: a.stored.MessageID, StoreSeq: a.stored.StoreSeq})
	switch {
	case err != nil:
		a.err = kindNotConfirmed.problem().about(a.id, a.stored.StoreSeq)
	case settled.DeadLettered:
		a.state = queue.StatusDeadLettered
		a.err = kindDeadLettered.because("It is kept as a dead letter until a person re-drives or drops it: "+settled.Reason).about(a.id, a.stored.StoreSeq)
	default:
		a.state = queue.StatusConfirmed
	}
}

// announce sets the headers of every answer about jobs.
func (i *Intake) announce(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	if i.options.Volatile {
		w.Header().Set("Workpulling-Durability", "volatile")
	}
}

// write answers a single job, or lists the answers of a batch: 200 if all are stored, else 207.
func (i *Intake) write(w http.ResponseWriter, answers []answer, batch bool) {
	i.announce(w)
	if !batch {
		i.writeOne(w, &answers[0])
		return
	}
	status, pause := http.StatusOK, 0
	list := make([]byte, 0, outcomeBytes*len(answers))
	separator := byte('[')
	for n := range answers {
		one := i.outcome(&answers[n])
		if p := one.Problem; p != nil {
			status, pause = http.StatusMultiStatus, max(pause, p.RetryAfter)
		}
		list = one.appendTo(append(list, separator))
		separator = ','
	}
	if pause > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(pause))
	}
	writeRaw(w, status, typeJSON, append(list, ']'))
}

func (i *Intake) writeOne(w http.ResponseWriter, a *answer) {
	if a.known() {
		w.Header().Set("Location", i.location(a.id))
	}
	if a.err != nil {
		i.problemOf(a).write(w)
		return
	}
	one := a.outcome()
	writeRaw(w, i.status(a), typeJSON, one.appendTo(nil))
}

// problemOf is the problem of an answer that has one. Its instance is the job, where there is one.
func (i *Intake) problemOf(a *answer) problem {
	p := problemOf(a.err)
	if a.known() {
		p.Instance = i.location(a.id)
	}
	return p
}

// outcome is the answer about one job of many.
func (i *Intake) outcome(a *answer) outcome {
	out := a.outcome()
	out.Status = i.status(a)
	if a.err != nil {
		p := i.problemOf(a)
		out.Status, out.Problem = p.Status, &p
	}
	return out
}

func (a *answer) outcome() outcome {
	out := outcome{ID: a.id, State: a.state}
	if a.known() {
		out.Sequence, out.New = a.stored.StoreSeq, a.stored.Verdict == protocol.StoredNew
	}
	return out
}

// status is 201 for a new job, 202 where it is not durable, and 200 for a known one.
func (i *Intake) status(a *answer) int {
	switch {
	case !a.known() || a.stored.Verdict != protocol.StoredNew:
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
