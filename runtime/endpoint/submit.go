package endpoint

import (
	"context"
	"fmt"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// Submission is one job on its way into the queue.
type Submission struct {
	Job    protocol.Job
	Digest queue.Digest // usually Digest(Job)
}

// Answer is what became of one Submission: either a Receipt or an error (ErrUnavailable, ErrSuspended, *NoCreditError,
// *RefusedError, protocol.ErrInvalid, or the context's).
type Answer struct {
	Receipt *Receipt
	Err     error
}

// Receipt says that a job is stored, or what a repeat of its MessageID found.
type Receipt struct {
	protocol.Stored
	desk       *desk
	submission *submission
}

// Acknowledge says that the submitter was told; from then on the flow may forget the id once the job is settled and the
// deduplication window is over. Call it exactly once for every receipt, also when telling the submitter failed.
func (r *Receipt) Acknowledge() {
	r.desk.producer.loop.post(func() { r.desk.acknowledge(r.submission) })
}

// Submit stores one job; see SubmitBatch.
func (p *Producer) Submit(ctx context.Context, job protocol.Job, digest queue.Digest) (*Receipt, error) {
	answer := p.SubmitBatch(ctx, []Submission{{Job: job, Digest: digest}})[0]
	return answer.Receipt, answer.Err
}

// SubmitBatch stores jobs, each on its own merits, and answers in the order of entries. What arrives together is written
// together. A submission that gets no credit within CreditWait is refused; one that got it waits for the queue until ctx ends,
// and is then ErrUnavailable: it may or may not be stored.
func (p *Producer) SubmitBatch(ctx context.Context, entries []Submission) []Answer {
	answers := make([]Answer, len(entries))
	pending := make([]*submission, 0, len(entries))
	at := make([]int, 0, len(entries))
	for i, entry := range entries {
		if err := entry.Job.Validate(0); err != nil {
			answers[i].Err = err
			continue
		}
		pending = append(pending, &submission{entry: entry, answer: make(chan Answer, 1)})
		at = append(at, i)
	}
	if len(pending) == 0 {
		return answers
	}
	if !p.loop.post(func() { p.desk.submit(pending) }) {
		refuse(pending, ErrUnavailable)
	}
	patience := p.options.Clock.NewTimer(p.options.CreditWait)
	defer patience.Stop()
	impatient := patience.C()
	for i := 0; i < len(pending); {
		select {
		case answers[at[i]] = <-pending[i].answer:
			i++
		case <-impatient:
			impatient = nil
			rest := pending[i:]
			p.loop.post(func() { p.withdraw(rest) })
		case <-ctx.Done():
			p.abandon(pending[i:], answers, at[i:], fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err()))
			return answers
		case <-p.loop.done:
			p.abandon(pending[i:], answers, at[i:], ErrUnavailable)
			return answers
		}
	}
	return answers
}

func (p *Producer) withdraw(submissions []*submission) {
	for _, s := range submissions {
		p.desk.withdraw(s)
	}
}

// abandon collects the answers that are there, and leaves the rest to be acknowledged by itself: nobody waits any more.
func (p *Producer) abandon(submissions []*submission, answers []Answer, at []int, err error) {
	for i, s := range submissions {
		select {
		case answers[at[i]] = <-s.answer:
			continue
		default:
			answers[at[i]].Err = err
		}
		p.loop.post(func() {
			p.desk.withdraw(s)
			p.desk.acknowledge(s)
		})
	}
}
