package protocol

import "fmt"

// TicketBytes is the length of a Ticket.
const TicketBytes = 16

// Ticket proves that a producer gave one attempt of one job to one pod: a MAC under a key that never leaves the queue and its
// producers. The zero value is no ticket: the producer does not know of any.
type Ticket [TicketBytes]byte

// IsZero reports whether there is no ticket.
func (t Ticket) IsZero() bool { return t == Ticket{} }

// ClaimState says what became of a claimed job at the worker.
type ClaimState int

const (
	// ClaimRunning: its handler runs now.
	ClaimRunning ClaimState = iota + 1
	// ClaimConfirmed: its handler finished and said success, and no producer has taken that over yet.
	ClaimConfirmed
	// ClaimLost: the process that ran it is gone, and its end will never be known.
	ClaimLost
)

// String returns the state as a label value: a small closed set.
func (s ClaimState) String() string {
	switch s {
	case ClaimRunning:
		return "running"
	case ClaimConfirmed:
		return "confirmed"
	case ClaimLost:
		return "lost"
	default:
		return "unknown"
	}
}

// Claim is what a worker says at a registration about a job that it was given before, in whatever binding and session. It counts
// only with the ticket of that very delivery, and only on a stream of the pod that the ticket was made for (B-238).
type Claim struct {
	StoreSeq  int64
	MessageID string
	// Attempt and Ticket are those of the delivery.
	Attempt int
	Ticket  Ticket
	State   ClaimState
	// Reason is a short text for people, at most MaxClaimReasonBytes; never a payload.
	Reason string
}

const (
	// MaxClaims bounds the claims of one registration: a full window that was confirmed and not taken over, and as many handlers.
	MaxClaims = 2 * MaxFlowControlWindow
	// MaxClaimReasonBytes bounds Claim.Reason, so that a registration with MaxClaims fits into one frame.
	MaxClaimReasonBytes = 128
)

// Ref names the claimed job.
func (c Claim) Ref() ClaimRef { return ClaimRef{MessageID: c.MessageID, StoreSeq: c.StoreSeq} }

// ClaimRef names a job that was claimed.
type ClaimRef struct {
	MessageID string
	StoreSeq  int64
}

// Adopted gives a claimed job its place in the binding that a RegistrationAck opens or confirms. It stands for a delivery of it:
// the worker has the job, and settles the sequence with what becomes or became of its run.
type Adopted struct {
	WorkerSeq int64
	StoreSeq  int64
	MessageID string
	Attempt   int
	Ticket    Ticket
}

// ClaimsEnded tells a worker which of its claims it may forget: their job's end is durable, or there is no more to say about them.
type ClaimsEnded struct {
	BindingID string
	Ended     []ClaimRef
}

func (ClaimsEnded) toWorker() {}

// Validate returns an error wrapping ErrInvalid unless the claim can name a delivery and has a known state.
func (c Claim) Validate() error {
	switch {
	case c.StoreSeq < 1 || c.StoreSeq > MaxSequence:
		return fmt.Errorf("%w: store sequence %d", ErrInvalid, c.StoreSeq)
	case c.Attempt < 1:
		return fmt.Errorf("%w: attempt %d", ErrInvalid, c.Attempt)
	case c.Ticket.IsZero():
		return fmt.Errorf("%w: a claim without a ticket", ErrInvalid)
	case c.State < ClaimRunning || c.State > ClaimLost:
		return fmt.Errorf("%w: claim state %d", ErrInvalid, int(c.State))
	case len(c.Reason) > MaxClaimReasonBytes:
		return fmt.Errorf("%w: the reason of a claim has %d bytes, the limit is %d", ErrInvalid, len(c.Reason), MaxClaimReasonBytes)
	}
	return CheckID("message id", c.MessageID)
}

// Validate returns an error wrapping ErrInvalid unless the adoption can stand for a delivery.
func (a Adopted) Validate() error {
	switch {
	case a.WorkerSeq < 1 || a.WorkerSeq > MaxSequence:
		return fmt.Errorf("%w: worker sequence %d", ErrInvalid, a.WorkerSeq)
	case a.StoreSeq < 1 || a.StoreSeq > MaxSequence:
		return fmt.Errorf("%w: store sequence %d", ErrInvalid, a.StoreSeq)
	case a.Attempt < 1:
		return fmt.Errorf("%w: attempt %d", ErrInvalid, a.Attempt)
	}
	return CheckID("message id", a.MessageID)
}

// Validate returns an error wrapping ErrInvalid unless the reference can name a job.
func (r ClaimRef) Validate() error {
	if r.StoreSeq < 1 || r.StoreSeq > MaxSequence {
		return fmt.Errorf("%w: store sequence %d", ErrInvalid, r.StoreSeq)
	}
	return CheckID("message id", r.MessageID)
}

// checkClaims bounds the number and looks at each.
func checkClaims(claims []Claim) error {
	if len(claims) > MaxClaims {
		return fmt.Errorf("%w: %d claims, the limit is %d", ErrInvalid, len(claims), MaxClaims)
	}
	for i, c := range claims {
		if err := c.Validate(); err != nil {
			return fmt.Errorf("claim %d: %w", i, err)
		}
	}
	return nil
}

// checkAdopted wants strictly ascending worker sequences, at most one for each claim.
func checkAdopted(adopted []Adopted) error {
	if len(adopted) > MaxClaims {
		return fmt.Errorf("%w: %d adopted jobs, the limit is %d", ErrInvalid, len(adopted), MaxClaims)
	}
	last := int64(0)
	for i, a := range adopted {
		if err := a.Validate(); err != nil {
			return fmt.Errorf("adopted job %d: %w", i, err)
		}
		if a.WorkerSeq <= last {
			return fmt.Errorf("%w: adopted sequence %d after %d", ErrInvalid, a.WorkerSeq, last)
		}
		last = a.WorkerSeq
	}
	return nil
}

// ClipClaimReason cuts a reason to MaxClaimReasonBytes of valid UTF-8.
func ClipClaimReason(reason string) string { return clip(reason, MaxClaimReasonBytes) }
