package delivery

import (
	"github.com/workpulling/workpulling/runtime/queue"
)

// Random is the source of everything random in the machines. ID returns a fresh unguessable id of at least 128 bits in
// printable ASCII; Float64 returns a number in [0,1) for jitter.
type Random interface {
	ID() string
	Float64() float64
}

// Phase says what a Controller is doing as a whole.
type Phase string

const (
	PhaseLoading Phase = "Loading" // waiting for a load, or retrying it
	PhaseRunning Phase = "Running" // accepts and dispatches
	PhaseFailed  Phase = "Failed"  // a terminal failure was raised; inert
)

// Stats is a snapshot of a Controller for status, metrics and invariants. Counters count since this Controller was made.
type Stats struct {
	Phase   Phase
	Session string
	Epoch   queue.Epoch
	Cursor  int64

	BacklogJobs   int   // stored, held by no worker, due now
	BacklogBytes  int64 // payload bytes of all stored jobs held by no worker
	DelayedJobs   int   // stored, held by no worker, waiting for a back-off
	InFlight      int   // held by bindings, unsettled
	DeadLetters   int64
	FreeDemand    int   // demand that no delivery has used yet
	OpenGrants    int   // tokens granted and not answered
	DirtyConfirms int   // settlements not durable yet
	MemoryBytes   int64 // payload bytes in memory

	// OldestBacklogStoreSeq is the lowest store sequence in the backlog, 0 if empty.
	OldestBacklogStoreSeq int64
	// LoadFailing is set after a minute of failing loads and clears itself; CreditWithheld while confirms cannot be written.
	LoadFailing    bool
	CreditWithheld bool
	// QueueError is the last error of the durable lane while it is failing, else empty.
	QueueError string
	// QueueFull: the queue had no room for the latest new job. Stored jobs go on.
	QueueFull        bool
	IsolatedConfirms int

	// AwaitedWorkers is how many workers are waited for after a load before reloaded jobs are dispatched; 0 when nothing waits.
	AwaitedWorkers int

	Accepted, Confirmed, DeadLettered, Redelivered, Nacked, HandedBack uint64
	// Adopted counts running jobs that went on in a new binding by a worker's claim, Claimed those completed by one.
	Adopted, Claimed uint64
	// Dropped counts refused or ignored messages by reason (B-280).
	Dropped map[string]uint64

	Bindings []BindingStats
	// Paused are the pool revisions whose every job fails, Quarantined the pods that are kept away.
	Paused      []RevisionStats
	Quarantined []QuarantineStats
	// Pauses counts how often a revision was paused.
	Pauses uint64
	// TrackedWorkers and TrackedStreams are how many pods and streams of workers are remembered.
	TrackedWorkers, TrackedStreams int
}

// BindingStats describes one binding.
type BindingStats struct {
	BindingID  string
	Worker     Worker
	InFlight   int
	Started    int
	FreeDemand int
	Connected  bool
	Draining   bool
}

// Work is what a worker has on its hands of one flow: the part of ConsumerStatus that can be read after every step.
type Work struct {
	Running   int // handlers in progress, abandoned ones included
	Buffered  int // deliveries not started
	Unsettled int // running, buffered, and settlements not taken over
	// Registered says that there is a binding and its controller speaks.
	Registered bool
}

// ConsumerStatus is a snapshot of a worker's machine, or of its part in one flow.
type ConsumerStatus struct {
	// Flow is empty in the status of the whole worker.
	Flow string
	// Registered says that there is a binding and its controller speaks; of the whole worker, in every flow.
	Registered bool
	// EverRegistered says that there was one before; of the whole worker, in any flow.
	EverRegistered bool
	BindingID      string // of the whole worker only where it pulls from one flow
	Session        string // likewise
	Running        int    // handlers in progress, abandoned ones included
	Buffered       int    // deliveries not started
	Unsettled      int    // running, buffered, settlements not taken over, and finished jobs that no controller was told of
	// LastRefusal is why the latest registration was refused, else empty.
	LastRefusal                                                   string
	Started, Confirmed, Nacked, HandedBack, Abandoned, Duplicates uint64
	Dropped                                                       map[string]uint64
	// OlderEpochs counts bindings that were turned away because a newer writer of the same queue is known (B-072); Rivals counts
	// those that show two producers under one name that do not know of each other (B-217).
	OlderEpochs, Rivals uint64

	// What follows is of the whole worker.
	Cordoned bool
	Draining bool
	Drained  bool
	AppReady bool
	// Orphaned counts the slots taken by handlers that an earlier process of the pod began; they are no part of Running and Unsettled.
	Orphaned int
	// TrackedProducers is how many queues the worker remembers something about; EvictedProducers counts those forgotten because there were
	// more than MaxProducers, IdleProducers those that were silent for too long.
	TrackedProducers                int
	EvictedProducers, IdleProducers uint64
	// IdleSince is when the last handler ended or the first registration happened; meaningful while Idle.
	IdleSince Now
	Idle      bool
	// Flows are the parts, in the order that the group was made with.
	Flows []ConsumerStatus
}
