package workpulling

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/workpulling/workpulling/runtime/endpoint"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// Receipt says that a job is stored, or what became of an earlier submission under its ID.
type Receipt struct {
	ID string
	// Sequence is the place of the job in the queue, from 1.
	Sequence int64
	Verdict  Verdict
	receipt  *endpoint.Receipt // to be acknowledged, or nil
}

// Acknowledge says that the submitter has written down that the job is stored. It is needed once for each receipt with
// ManualAcknowledge, and does nothing without.
func (r Receipt) Acknowledge() {
	if r.receipt != nil {
		r.receipt.Acknowledge()
	}
}

// Verdict says what the queue made of a submission.
type Verdict string

const (
	Stored              Verdict = "stored"                // a first submission
	AlreadyStored       Verdict = "already stored"        // a repeat of a job that is not settled yet
	AlreadyConfirmed    Verdict = "already confirmed"     // a repeat of a job that a handler has confirmed; it does not run again
	AlreadyDeadLettered Verdict = "already dead-lettered" // a repeat of a job among the dead letters
)

var verdicts = map[protocol.StoreVerdict]Verdict{
	protocol.StoredNew: Stored, protocol.AlreadyStored: AlreadyStored,
	protocol.AlreadyConfirmed: AlreadyConfirmed, protocol.AlreadyDeadLettered: AlreadyDeadLettered,
}

// Pending is a submission under way.
type Pending struct {
	from *submitter

	mu        sync.Mutex
	done      chan struct{} // made when somebody waits
	answered  bool
	abandoned bool // nobody will acknowledge it
	receipt   Receipt
	err       error
}

// Done is closed when the answer is there.
func (p *Pending) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil {
		p.done = make(chan struct{})
		if p.answered {
			close(p.done)
		}
	}
	return p.done
}

// Wait returns the answer, as Submit does. It may be called again.
func (p *Pending) Wait(ctx context.Context) (Receipt, error) {
	p.mu.Lock()
	answered := p.answered
	p.mu.Unlock()
	if !answered {
		select {
		case <-p.Done():
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.answered { // an answer beats the end of patience
		return Receipt{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	return p.receipt, p.err
}

// abandon says that nobody waits any more.
func (p *Pending) abandon() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.abandoned = true
	if p.answered {
		go p.receipt.Acknowledge()
	}
}

// Answered implements endpoint.Reply.
func (p *Pending) Answered(answer endpoint.Answer) (acknowledge bool) {
	p.from.slots.Release(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	acknowledge = !p.from.manual || p.abandoned
	switch r := answer.Receipt; {
	case r == nil:
		p.err = translated(answer.Err)
	case r.Verdict == protocol.BodyMismatch:
		p.err, acknowledge = ErrConflict, true
	default:
		p.receipt = Receipt{ID: r.MessageID, Sequence: r.StoreSeq, Verdict: verdicts[r.Verdict]}
		if !acknowledge {
			p.receipt.receipt = r
		}
	}
	p.answered = true
	if p.done != nil {
		close(p.done)
	}
	return acknowledge
}

// submitter is what Producer and Client have in common.
type submitter struct {
	to interface {
		Post(entry endpoint.Submission)
		Push(entry endpoint.Submission)
		PushAll(entries []endpoint.Submission)
	}
	slots  *semaphore.Weighted
	manual bool
}

// Submit stores one job and returns when it is stored, under the same ID at most once. Its errors wrap ErrUnavailable, ErrSuspended,
// ErrConflict or ErrInvalid, or are a *BackPressureError. When ctx ends first, that is ErrUnavailable too: the job may or may not be stored.
func (s *submitter) Submit(ctx context.Context, job Job) (Receipt, error) {
	if err := s.acquire(ctx); err != nil {
		return Receipt{}, err
	}
	pending := &Pending{from: s}
	s.to.Push(submission(job, pending))
	receipt, err := pending.Wait(ctx)
	if err != nil {
		pending.abandon()
	}
	return receipt, err
}

// SubmitAsync hands a job over and returns at once, or as soon as fewer than MaxPending are without an answer; ctx bounds that wait alone. Jobs
// that one goroutine submits are stored in that order, as long as no connection breaks and no job waits for credit in vain.
func (s *submitter) SubmitAsync(ctx context.Context, job Job) (*Pending, error) {
	if err := s.acquire(ctx); err != nil {
		return nil, err
	}
	pending := &Pending{from: s}
	s.to.Post(submission(job, pending))
	return pending, nil
}

// acquire waits for one of MaxPending places.
func (s *submitter) acquire(ctx context.Context) error {
	if err := s.slots.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

// SubmitBatch stores jobs, each on its own merits, and returns the answers in their order.
func (s *submitter) SubmitBatch(ctx context.Context, jobs ...Job) []Result {
	results := make([]Result, len(jobs))
	pending := make([]Pending, len(jobs))
	handed := s.handOver(ctx, jobs, pending, results)
	for i := range handed {
		p := &pending[i]
		if results[i].Receipt, results[i].Err = p.Wait(ctx); results[i].Err != nil {
			p.abandon()
		}
	}
	return results
}

// handOver hands over as many jobs at a time as there are places, and returns how many went; the others have their error.
func (s *submitter) handOver(ctx context.Context, jobs []Job, pending []Pending, results []Result) (handed int) {
	entries := make([]endpoint.Submission, 0, len(jobs))
	for i, job := range jobs {
		if !s.slots.TryAcquire(1) {
			s.to.PushAll(entries)
			entries = entries[:0]
			if err := s.acquire(ctx); err != nil {
				for ; i < len(jobs); i++ {
					results[i].Err = err
				}
				return handed
			}
		}
		pending[i].from = s
		entries = append(entries, submission(job, &pending[i]))
		handed++
	}
	s.to.PushAll(entries)
	return handed
}

// Result is the answer to one job of a batch: a Receipt, or an error as Submit returns it.
type Result struct {
	Receipt Receipt
	Err     error
}

func submission(job Job, reply endpoint.Reply) endpoint.Submission {
	wire := protocol.Job{MessageID: job.ID, Headers: job.Headers, Payload: job.Payload}
	return endpoint.Submission{Job: wire, Digest: endpoint.Digest(wire), Reply: reply}
}
