package protocol

import "time"

// Incarnation names one process start of one sidecar: a container restart keeps the pod UID and changes
// the boot nonce.
type Incarnation struct {
	PodUID    string
	BootNonce string
}

// Job is one message of a flow as its submitter gave it. Payload and Headers are immutable once a Job was handed over:
// nobody copies them and nobody may change them (G-034, G-137).
type Job struct {
	// MessageID is the deduplication key, 1…256 bytes of valid UTF-8 without control characters.
	MessageID string
	// Headers are the CloudEvents attributes, trace context and content type; keys are lower case.
	Headers map[string]string
	// Payload is never empty and at most the flow's payload limit.
	Payload []byte
}

// --- producer side: RequestNext, Produced, Stored, StoredAck, DeliveryConfirmed -------------------------------------

// RequestNext grants submissions to one producer endpoint. The grant is cumulative, so repeating it is harmless (G-030,
// G-031): in this session the endpoint may use every token in 1…UpTo, each for one job. A grant ends with its stream.
type RequestNext struct {
	Session string
	UpTo    uint64
}

// Produced answers one granted token with one job. A repeat must be identical (G-032).
type Produced struct {
	Session string
	Token   uint64
	Job     Job
}

// StoreVerdict says what the durable queue made of a submission.
type StoreVerdict int

const (
	// StoredNew is a first write: the job is durably stored (201).
	StoredNew StoreVerdict = iota + 1
	// AlreadyStored is a repeat of a job that is not settled yet; the first write stands (G-126).
	AlreadyStored
	// AlreadyConfirmed is a repeat of a job that a worker confirmed within the deduplication window; it does not run again (G-X06, B-030).
	AlreadyConfirmed
	// AlreadyDeadLettered is a repeat of a job that waits among the dead letters.
	AlreadyDeadLettered
	// BodyMismatch is a known MessageID with other bytes: nothing is stored and the first write stands (422).
	BodyMismatch
)

// Stored tells the endpoint what became of a token. It is repeated until StoredAck (G-035).
type Stored struct {
	Session   string
	Token     uint64
	MessageID string
	// StoreSeq is the producer-visible append number of the first write.
	StoreSeq int64
	Verdict  StoreVerdict
}

// StoredAck says that the producer has durably forgotten the submission (G-036).
type StoredAck struct {
	Session   string
	Token     uint64
	MessageID string
}

// RefusalCode says why a submission or registration was refused. Codes are label values of a counter: a small closed set.
type RefusalCode string

const (
	RefusedNoCredit        RefusalCode = "no-credit"          // a token above the grant (B-006)
	RefusedTokenReused     RefusalCode = "token-reused"       // a token answered before with another job (B-005)
	RefusedInvalid         RefusalCode = "invalid"            // the job breaks a limit (B-012)
	RefusedStaleSession    RefusalCode = "stale-session"      // a message of an earlier session (B-007)
	RefusedSuspended       RefusalCode = "suspended"          // the flow is suspended, draining or failed
	RefusedUnknownBinding  RefusalCode = "unknown-binding"    // binding id or secret do not match (B-141)
	RefusedVersion         RefusalCode = "version"            // the protocol versions have nothing in common (B-095)
	RefusedSuperseded      RefusalCode = "superseded"         // this incarnation is over: a newer one of its pod took its place, or its Lease is gone (B-089)
	RefusedCoolingDown     RefusalCode = "cooling-down"       // repeated violations; try again later (B-204)
	RefusedIdentity        RefusalCode = "identity"           // token, pod, pool or ServiceAccount not accepted (B-080…B-083)
	RefusedUnavailable     RefusalCode = "unavailable"        // cannot decide now; retry later (B-091)
	RefusedSequenceSpent   RefusalCode = "sequence-spent"     // the sequence space is used up (G-045, B-205)
	RefusedDeadlineExpired RefusalCode = "deadline-expired"   // the binding was silent for too long (B-169)
	RefusedViolation       RefusalCode = "protocol-violation" // an illegal demand or settlement (G-101)
	RefusedQueueFull       RefusalCode = "queue-full"         // the queue has no room left; retry later (B-239)
	RefusedUndecided       RefusalCode = "undecided"          // the queue does not answer: the job may be stored or not (B-239)
)

// Refused answers a Produced that was not taken. The flow lives, and nothing was stored (B-005), except that after RefusedUndecided the
// job may be. A token within the grant that carried no other job before stays open: it may carry another one, but not after one of
// these two codes: RefusedQueueFull has used it up, and RefusedUndecided comes when its session is over.
type Refused struct {
	Session    string
	Token      uint64
	MessageID  string
	Code       RefusalCode
	Reason     string
	RetryAfter time.Duration
}

// DeliveryConfirmed tells the producer that a worker confirmed a job; sent after the confirm is durable, best effort,
// repeated when a requeued job is confirmed again (G-110).
type DeliveryConfirmed struct {
	Session   string
	MessageID string
	StoreSeq  int64
}

// --- worker side ----------------------------------------------------------------------------------------------------

// Version is the protocol version that this build speaks. A controller refuses a worker that shares none with it.
const Version = 1

// RegisterConsumer asks for a binding, or refreshes the one that the same incarnation holds (G-060, G-086).
type RegisterConsumer struct {
	Version     int
	Nonce       string // fresh per registration; only the ack that echoes the latest counts
	Incarnation Incarnation
	// Window is the most unsettled deliveries this worker wants, 1…MaxFlowControlWindow; the flow may cap it.
	Window int
	// Claims are the jobs that the worker holds from earlier deliveries, at most MaxClaims, in the order of their starts.
	Claims []Claim
	// Epoch is the newest that the worker has seen of Queue, the data that it pulled from last; 0 and empty before the first binding.
	// It makes a controller that was replaced, and does not know it, find that out.
	Epoch uint64
	Queue string
}

// RegistrationAck opens or confirms a binding. A BindingID that the worker does not hold yet resets its sub-flow: expect
// NextSeq, forget buffered deliveries, keep running handlers (G-061, G-X01).
type RegistrationAck struct {
	Session   string
	Nonce     string
	BindingID string
	Secret    string
	NextSeq   int64
	// Window is the granted window: the smaller of the worker's and the flow's.
	Window    int
	Heartbeat time.Duration
	Deadline  time.Duration
	// Epoch is the controller's generation of writer, and Queue names the data that it counts for: a worker never goes back to an
	// older epoch of the same data (B-072). 0 and empty come from a controller that does not tell.
	Epoch uint64
	Queue string
	// Adopted are the claimed jobs that the binding holds, in the order of their worker sequences.
	Adopted []Adopted
}

// RegistrationRefused says why there is no binding and when to ask again.
type RegistrationRefused struct {
	Nonce      string
	Code       RefusalCode
	Reason     string
	RetryAfter time.Duration
}

// BindingRef names a binding and proves the right to speak for it.
type BindingRef struct {
	BindingID string
	Secret    string
}

// Request is demand (G-063): the worker accepts worker sequences up to RequestUpTo. It also carries the settled watermark
// and the highest started sequence (jobs start in worker-sequence order within a binding).
type Request struct {
	BindingRef
	// ConfirmedSeq is the contiguous settled watermark: everything at or below it is settled.
	ConfirmedSeq int64
	RequestUpTo  int64
	StartedSeq   int64
	// ViaTimeout asks for a resend of everything unsettled that was sent in ConfirmedSeq+1…RequestUpTo (G-071). What the worker
	// reported as started on this stream it has, and does not get again.
	ViaTimeout bool
}

// Outcome is how one delivery ended at the worker. Only Confirmed is success.
type Outcome int

const (
	// Confirmed: the handler finished and said success.
	Confirmed Outcome = iota + 1
	// Nacked: the handler said failure; counts as an attempt and is redelivered after a back-off.
	Nacked
	// Rejected: the handler said "do not retry"; straight to the dead letters.
	Rejected
	// HandedBack: the handler never started (drain, recall, app not listening); no attempt.
	HandedBack
	// Abandoned: the handler ran past its timeout; counts as an attempt, its late answer is refused.
	Abandoned
	// Delayed: the handler asked for later (429 or 503 with Retry-After); no attempt.
	Delayed
	// Inadmissible: the delivery breaks a limit, so it was refused and no handler ran. Counts as an attempt and is redelivered
	// after a back-off, like a failure.
	Inadmissible
)

// Settlement ends one worker sequence. A resend of the sequence repeats the recorded settlement. Nothing that fails to
// match binding, sequence, MessageID and attempt together counts (B-141).
type Settlement struct {
	WorkerSeq int64
	// MessageID and Attempt are those of the delivery. Inadmissible leaves them empty: of such an envelope only its sequence is relied on.
	MessageID string
	Attempt   int
	Outcome   Outcome
	// Reason is a short text for people, at most MaxReasonBytes; never a payload.
	Reason string
	// RetryAfter is the handler's wish with Delayed, already clamped by the worker; zero means the flow's back-off.
	RetryAfter time.Duration
}

// Ack carries settlements, batched within one round trip or 5 ms. It is repeated by resend until the
// controller's Settled watermark covers it.
type Ack struct {
	BindingRef
	StartedSeq  int64
	Settlements []Settlement
}

// SettledAck tells the worker which of its settlements the controller has taken over: all in 1…UpTo and those in Above.
// The worker may forget them. A confirm or rejection is taken over once it is durable (or kept by the controller alone, after
// its write failed for long), so that a producer crash runs no finished job of a living worker again (B-147).
type SettledAck struct {
	BindingID string
	UpTo      int64
	Above     []int64
}

// Delivery is one job on its way to one worker.
type Delivery struct {
	WorkerSeq int64
	StoreSeq  int64
	// Attempt is 1 for the first counted try.
	Attempt int
	// Redelivered is true when the job was dispatched before, counted or not, or may have been before the producer restarted.
	Redelivered bool
	// Ticket lets the worker claim the job at a later registration.
	Ticket Ticket
	Job    Job
	// Broken says what of a received envelope has no value here at all; empty where nothing is amiss. It is never sent.
	Broken string
}

// SequencedMessage carries deliveries of one binding in worker-sequence order, several a frame.
type SequencedMessage struct {
	BindingID  string
	Deliveries []Delivery
}

// HandBack asks a worker to give back deliveries that it has not started, newest first, at most Count (B-109). The worker
// answers with HandedBack settlements.
type HandBack struct {
	BindingID string
	Count     int
}

// Drain tells the controller that the worker takes no new jobs; its running jobs will still be settled (B-172).
type Drain struct {
	BindingRef
}

// Heartbeat says that its sender lives. Sent by both sides every heartbeat interval on the data stream.
type Heartbeat struct {
	BindingRef       // from the worker; the secret is empty from the controller
	StartedSeq int64 // from the worker
}

// BindingEnded tells a worker that its binding is over; it registers anew, not before RetryAfter.
type BindingEnded struct {
	BindingID  string
	Code       RefusalCode
	Reason     string
	RetryAfter time.Duration
}

// FromWorker is the closed set of messages that a worker sends: RegisterConsumer, Request, Ack, Drain, Heartbeat.
type FromWorker interface{ fromWorker() }

// ToWorker is the closed set of messages that a worker receives: RegistrationAck, RegistrationRefused, SequencedMessage,
// SettledAck, HandBack, Heartbeat, BindingEnded, ClaimsEnded.
type ToWorker interface{ toWorker() }

// FromProducer is the closed set of messages that a producer endpoint sends: Produced, StoredAck.
type FromProducer interface{ fromProducer() }

// ToProducer is the closed set of messages that a producer endpoint receives: RequestNext, Stored, Refused, DeliveryConfirmed.
type ToProducer interface{ toProducer() }

func (RegisterConsumer) fromWorker()  {}
func (Request) fromWorker()           {}
func (Ack) fromWorker()               {}
func (Drain) fromWorker()             {}
func (Heartbeat) fromWorker()         {}
func (RegistrationAck) toWorker()     {}
func (RegistrationRefused) toWorker() {}
func (SequencedMessage) toWorker()    {}
func (SettledAck) toWorker()          {}
func (HandBack) toWorker()            {}
func (Heartbeat) toWorker()           {}
func (BindingEnded) toWorker()        {}
func (Produced) fromProducer()        {}
func (StoredAck) fromProducer()       {}
func (RequestNext) toProducer()       {}
func (Stored) toProducer()            {}
func (Refused) toProducer()           {}
func (DeliveryConfirmed) toProducer() {}
