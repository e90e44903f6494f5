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
	// Reply takes the answer of Post; SubmitBatch returns it instead.
	Reply Reply
}

// Reply takes the answer to one Submission.
type Reply interface {
	// Answered is called once, between two events of the endpoint: it must be quick and not call the endpoint. What it returns says whether
	// the answer counts as delivered; if not, the Receipt has to be acknowledged.
	Answered(answer Answer) (acknowledge bool)
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
	r.desk.host.post(func() { r.desk.acknowledge(r.submission) })
}

// AcknowledgeAll is Acknowledge for several receipts, which costs hardly more than for one.
func AcknowledgeAll(receipts []*Receipt) {
	for len(receipts) > 0 {
		same, desk := 1, receipts[0].desk
		for same < len(receipts) && receipts[same].desk == desk {
			same++
		}
		together := receipts[:same]
		desk.host.post(func() {
			for _, r := range together {
				desk.acknowledge(r.submission)
			}
		})
		receipts = receipts[same:]
	}
}

// Post hands a job over and returns at once; its Reply gets the answer. What arrives together is written together. A submission that gets no
// credit within CreditWait is refused; one that got it waits for the queue.
func (p *Producer) Post(entry Submission) {
	if s := entry.valid(); s != nil {
		p.hand([]*submission{s}, p.loop.post)
	}
}

// Push is Post for a caller that waits for the answer next: where the flow is idle it does the work itself, which saves handing it over. It
// must hold no lock that a Reply takes.
func (p *Producer) Push(entry Submission) {
	if s := entry.valid(); s != nil {
		p.hand([]*submission{s}, p.loop.do)
	}
}

// PushAll is Push for several jobs, which get their answers in an order of their own.
func (p *Producer) PushAll(entries []Submission) { p.hand(allValid(entries), p.loop.do) }

// valid makes a submission, or answers one that breaks a limit and returns nil.
func (entry *Submission) valid() *submission {
	if err := entry.Job.Validate(0); err != nil {
		entry.Reply.Answered(Answer{Err: err})
		return nil
	}
	return &submission{entry: *entry}
}

func allValid(entries []Submission) []*submission {
	pending := make([]*submission, 0, len(entries))
	for i := range entries {
		if s := entries[i].valid(); s != nil {
			pending = append(pending, s)
		}
	}
	return pending
}

// hand puts submissions before the loop, which to wakes.
func (p *Producer) hand(pending []*submission, to func(func()) bool) {
	first, open := p.inbox.put(pending...)
	if !open {
		refuse(pending, ErrUnavailable)
		return
	}
	if first && len(pending) > 0 {
		to(p.take) // if that fails, the end of the loop takes them
	}
}

func (p *Producer) takeSubmissions() { p.desk.submit(p.inbox.take()) }

// Submit stores one job; see SubmitBatch.
func (p *Producer) Submit(ctx context.Context, job protocol.Job, digest queue.Digest) (*Receipt, error) {
	answer := p.SubmitBatch(ctx, []Submission{{Job: job, Digest: digest}})[0]
	return answer.Receipt, answer.Err
}

// SubmitBatch stores jobs, each on its own merits, and answers in the order of entries. What arrives together is written
// together. A submission that gets no credit within CreditWait is refused; one that got it waits for the queue until ctx ends,
// and is then ErrUnavailable: it may or may not be stored.
func (p *Producer) SubmitBatch(ctx context.Context, entries []Submission) []Answer {
	b := newBatch(len(entries))
	submissions := make([]submission, len(entries))
	pending := make([]*submission, 0, len(entries))
	for i := range entries {
		if err := entries[i].Job.Validate(0); err != nil {
			b.answers[i].Err = err
			continue
		}
		submissions[i] = submission{entry: entries[i]}
		submissions[i].entry.Reply = &b.places[i]
		pending = append(pending, &submissions[i])
	}
	if b.open = len(pending); b.open == 0 {
		return b.answers
	}
	p.hand(pending, p.loop.do)
	select {
	case <-b.complete:
	case <-ctx.Done():
		p.abandon(b, pending, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err()))
	}
	return b.answers
}

// abandon answers what is open, and leaves it to be acknowledged by itself: nobody waits any more.
func (p *Producer) abandon(b *batch, pending []*submission, err error) {
	b.abandon(err)
	p.loop.post(func() {
		for _, s := range pending {
			p.desk.withdraw(s)
		}
	})
}
