package runtimeconfig

// Codes of FlowStats.failure_code: why reliable delivery failed, where the operator tells causes apart. Empty is any other cause, such as
// an error of the disk, which failure_reason describes.
const (
	FailureFenced   = "fenced"   // a newer writer owns the queue
	FailureConflict = "conflict" // the queue contradicts the writer or itself
	FailureFormat   = "format"   // the data were written by a newer version
	FailureProtocol = "protocol" // something that no retry heals
)

// QueueConnectionMissing is the FlowStats.queue_code of a shared queue whose connection string is not there.
const QueueConnectionMissing = "connection-missing"

// QueueFull is the FlowStats.queue_code of a queue that has no room for new jobs, while those that it holds are worked off.
const QueueFull = "full"

// QueueLocked is the FlowStats.queue_code of a Local queue whose volume another process holds, which ends by itself with that process.
const QueueLocked = "locked"

// StateStandby is the FlowStats.state of a producer that does not own the shared queue of its flow.
const StateStandby = "Standby"

// Values of FlowStats.verification: how a producer verifies tokens.
const (
	VerifiedOffline  = "Offline"     // with the public keys of the cluster
	VerifiedByReview = "TokenReview" // by the API server
	Unverified       = "Unavailable" // not at all
)
