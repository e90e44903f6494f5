package delivery

import (
	"maps"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// DropReasons is the closed set of reasons for which the machines refuse or ignore a message, and what each means (B-280). They are the
// values of the label `reason` of the counters of dropped messages.
func DropReasons() map[string]string {
	reasons := maps.Clone(dropReasons)
	for code, meaning := range refusals {
		reasons[string(code)] = meaning
	}
	return reasons
}

var dropReasons = map[string]string{
	"beyond-demand":           "a delivery above the demand of the worker",
	"buffer-full":             "a delivery that a worker has no room for",
	"claim-attempt":           "a claim of an attempt that is over",
	"claim-moved":             "a claim of a job that is settled or with another worker",
	"claim-span":              "claims that are more than a binding can hold",
	"claim-ticket":            "a claim whose ticket is not genuine",
	"endpoint-attached-twice": "a producer stream that was attached before",
	"foreign-operation":       "a result of an operation of the queue that nobody waits for",
	"inadmissible":            "a delivery that breaks a limit: it is refused, and counts as a failed attempt of its job",
	"late-answer":             "an answer of a handler after its attempt was given up",
	"late-produced":           "a submission that was stored and acknowledged before",
	"malformed":               "a message that makes no sense",
	"malformed-frame":         "a frame of a producer that cannot be decoded",
	"malformed-registration":  "a registration that makes no sense",
	"older-epoch":             "a registration that an older producer answered",
	"producer-forgotten":      "a producer that a worker had to forget while it talked to it",
	"repeated-produced":       "a submission that is being stored",
	"settlement-mismatch":     "a settlement whose job, attempt or outcome does not match",
	"settlement-repeated":     "a settlement that is on its way into the queue",
	"stale-connection":        "a message of a stream older than the present one",
	"stale-nonce":             "a registration, or an answer to one, that a later one has overtaken",
	"unexpected-stored-ack":   "an acknowledgement of what is not stored or was acknowledged before",
	"unknown-connection":      "a message of a stream that is gone",
	"unknown-endpoint":        "a message of a producer stream that is gone",
	"unknown-flow":            "a stream of a flow that the worker does not pull from",
	"unknown-message":         "a message that does not belong here",
	"unknown-run":             "an answer of a handler that nobody began",
	"worker-connected-twice":  "a worker stream that was connected before",
}

// refusals are those that the peer is told.
var refusals = map[protocol.RefusalCode]string{
	protocol.RefusedNoCredit:        "a submission without a granted token",
	protocol.RefusedTokenReused:     "a token that was used for another job",
	protocol.RefusedInvalid:         "a job or a registration that breaks a limit",
	protocol.RefusedStaleSession:    "a message of an earlier session",
	protocol.RefusedSuspended:       "a submission to a flow that takes none",
	protocol.RefusedUnknownBinding:  "a message for a binding that is not, or not any more, that of its stream",
	protocol.RefusedVersion:         "a worker of another protocol version",
	protocol.RefusedSuperseded:      "a worker process that a newer one has replaced",
	protocol.RefusedCoolingDown:     "a worker in quarantine",
	protocol.RefusedIdentity:        "a registration for another pod than that of its stream",
	protocol.RefusedUnavailable:     "a message while the queue is being loaded",
	protocol.RefusedSequenceSpent:   "a submission after the last store sequence",
	protocol.RefusedDeadlineExpired: "a binding whose worker was silent for too long",
	protocol.RefusedViolation:       "a message that breaks the protocol and ends its binding",
	protocol.RefusedQueueFull:       "a submission that the queue has no room for",
	protocol.RefusedUndecided:       "a submission whose outcome is not known, because the queue does not answer",
}
