package intake

import (
	"net/http"
	"slices"
	"strings"

	"github.com/workpulling/workpulling/runtime/transport"
)

const (
	typeJSON    = "application/json"
	typeProblem = "application/problem+json"
)

// ProblemBase is what every type of problem begins with. The rest is the slug of its Kind, which never changes its meaning.
const ProblemBase = "https://workpulling.dev/problems/"

// Kind is one type of problem that the intake answers with.
type Kind struct {
	// Slug is the end of the type.
	Slug string
	// Status is the HTTP status, of the answer or of the line that the problem is about.
	Status int
	Title  string
	// Help is what it means and what to do. It is the detail, where the answer has none of its own.
	Help string
}

var kinds []Kind

// kind declares one. Every problem is of a declared kind, so that the reference has them all.
func kind(status int, slug, title, help string) Kind {
	k := Kind{Slug: slug, Status: status, Title: title, Help: help}
	kinds = append(kinds, k)
	return k
}

// Problems are all kinds, by slug.
func Problems() []Kind {
	return slices.SortedFunc(slices.Values(kinds), func(a, b Kind) int { return strings.Compare(a.Slug, b.Slug) })
}

func (k Kind) problem() problem { return k.because(k.Help) }

func (k Kind) because(detail string) problem {
	return problem{Type: ProblemBase + k.Slug, Title: k.Title, Status: k.Status, Detail: detail}
}

// About jobs.
var (
	kindInvalid = kind(http.StatusBadRequest, "invalid", "The request breaks a rule",
		"The detail says which rule. Nothing was stored, and a repeat is refused as well.")
	kindTruncated = kind(http.StatusBadRequest, "truncated", "The body ended early",
		"Nothing of this job was stored. Repeat the request.")
	kindTooLarge = kind(http.StatusRequestEntityTooLarge, "too-large", "The body is too large",
		"Nothing was stored. Store large data elsewhere and submit a reference; the limit is spec.payload.maxBytes of the flow.")
	kindEncoded = kind(http.StatusUnsupportedMediaType, "encoded", "The body is compressed",
		"Send it without Content-Encoding, or say in Content-Type what it is and leave the unpacking to your handler.")
	kindMismatch = kind(http.StatusUnprocessableEntity, "id-reused", "The id is known with another body",
		"The first body stands and nothing was stored. Use a new id for a new job.")
	kindNoCredit = kind(http.StatusTooManyRequests, "no-credit", "The flow takes no more jobs right now",
		"The backlog is full, or nobody has demand. Nothing was stored: repeat the request after the time in Retry-After.")
	kindSuspended = kind(http.StatusServiceUnavailable, "suspended", "The flow takes no new jobs",
		"It is suspended, being deleted, or failed. Nothing was stored: try again when it is open.")
	kindRefused = kind(http.StatusServiceUnavailable, "refused", "The flow refused the job",
		"The detail says why. Nothing was stored.")
	kindQueueFull = kind(http.StatusServiceUnavailable, "queue-full", "The queue has no room",
		"Its volume or database is full, or read-only. Nothing was stored, and what was stored before is worked off: "+
			"repeat the request after the time in Retry-After. Whoever runs the flow has to make room: raise spec.queue.local.size, or look after the database.")
	kindUnavailable = kind(http.StatusServiceUnavailable, "unavailable", "The outcome is not known",
		"The queue did not answer in time. The job may or may not be stored: repeat the request with the same id, which is safe.")
	kindNoActive = kind(http.StatusServiceUnavailable, "no-active-producer", "No producer owns the queue at the moment",
		"One of them is about to take over. Nothing was stored: repeat the request after the time in Retry-After.")
	kindDeadLettered = kind(http.StatusConflict, "dead-lettered", "The job failed for good",
		"It is kept as a dead letter until a person re-drives or drops it. A repeat of the request cannot help.")
	kindNotConfirmed = kind(http.StatusGatewayTimeout, "not-confirmed-yet", "The job is stored, but not confirmed yet",
		"It will be processed without a repeat of this request. Look it up: its path is the instance.")
	kindNotFound = kind(http.StatusNotFound, "not-found", "No such job",
		"It was never stored under this id, or it was settled longer ago than the flow's deduplication window.")
)

// About streams. The stream ends behind a line with one of them; what comes after was not taken.
var (
	kindLate = kind(http.StatusRequestTimeout, "line-late", "The next line did not come in time",
		"A line has a minute, and the timeout of ?wait on top. The lines before are answered; send the rest with another request.")
	kindStreamOver = kind(http.StatusServiceUnavailable, "stream-over", "The stream is over",
		"It has lasted an hour, or the producer stops. The lines before are answered; send the rest with another request.")
)

// About requests.
var (
	kindUnknownFlow = kind(http.StatusNotFound, "unknown-flow", "No such flow here",
		"An intake serves one flow; the detail says which.")
	kindNoPath = kind(http.StatusNotFound, "no-such-path", "Nothing is served under this path",
		"The paths are in the description of the intake.")
	kindMethod = kind(http.StatusMethodNotAllowed, "method-not-allowed", "The path does not take this method",
		"The header Allow says which it takes.")
	kindInternal = kind(http.StatusInternalServerError, "internal", "The intake has a bug",
		"Whether something was stored is not known; a repeat with the same id is safe. The log of the producer tells more about the instance.")
)

const (
	titleToken   = "The token is not accepted"
	titleAddress = "The caller is not known by its address"
	titleRights  = "The caller may not do this"
	titleUnknown = "The caller cannot be checked now"
)

// About the caller.
var (
	kindTokenInvalid = kind(http.StatusUnauthorized, string(transport.LabelTokenInvalid), titleToken,
		"It is none of this cluster, or it was changed.")

	refusals = map[transport.Label]Kind{
		transport.LabelTokenInvalid: kindTokenInvalid,
		transport.LabelTokenMissing: kind(http.StatusUnauthorized, string(transport.LabelTokenMissing), titleToken,
			"There is none: send it as Authorization: Bearer."),
		transport.LabelTokenExpired: kind(http.StatusUnauthorized, string(transport.LabelTokenExpired), titleToken,
			"It has expired: read the file of a projected token again."),
		transport.LabelTokenAudience: kind(http.StatusUnauthorized, string(transport.LabelTokenAudience), titleToken,
			"It was issued for another audience than workpulling.dev."),
		transport.LabelTokenDefaultAudience: kind(http.StatusUnauthorized, string(transport.LabelTokenDefaultAudience), titleToken,
			"It was issued for the API server: ask for one of audience workpulling.dev."),
		transport.LabelTokenIssuer: kind(http.StatusUnauthorized, string(transport.LabelTokenIssuer), titleToken,
			"It was issued in another name than the ServiceAccount tokens of this cluster, and the API server does not vouch for it."),
		transport.LabelTokenKey: kind(http.StatusUnauthorized, string(transport.LabelTokenKey), titleToken,
			"It is signed with a key that this cluster has not."),
		transport.LabelTokenSignature: kind(http.StatusUnauthorized, string(transport.LabelTokenSignature), titleToken,
			"Its signature is wrong."),
		transport.LabelTokenLegacy: kind(http.StatusUnauthorized, string(transport.LabelTokenLegacy), titleToken,
			"It is one from a Secret, which is for no audience and never ends: use a projected token."),
		transport.LabelTokenUnbound: kind(http.StatusUnauthorized, string(transport.LabelTokenUnbound), titleToken,
			"It is not bound to a pod."),
		transport.LabelPodDeleted: kind(http.StatusUnauthorized, string(transport.LabelPodDeleted), titleToken,
			"What it is bound to is gone."),
		transport.LabelPodUnknown: kind(http.StatusUnauthorized, string(transport.LabelPodUnknown), titleToken,
			"It is bound to a pod that is not known."),
		transport.LabelPodTerminating: kind(http.StatusUnauthorized, string(transport.LabelPodTerminating), titleToken,
			"It is bound to a pod that is being deleted."),
		transport.LabelPodForeign: kind(http.StatusUnauthorized, string(transport.LabelPodForeign), titleToken,
			"It is bound to a pod that does not belong to this flow."),
		transport.LabelPeerMismatch: kind(http.StatusUnauthorized, string(transport.LabelPeerMismatch), titleToken,
			"It belongs to another peer than the one that is named."),
		transport.LabelAddressUnknown: kind(http.StatusUnauthorized, string(transport.LabelAddressUnknown), titleAddress,
			"There is no token, and no live pod of the flow's namespace has the address. A pod that has just started may repeat the request in a moment; "+
				"anybody else presents a token."),
		transport.LabelAddressHost: kind(http.StatusUnauthorized, string(transport.LabelAddressHost), titleAddress,
			"There is no token, and the address is that of a node, as pods with hostNetwork have it: present a token."),
		transport.LabelAddressShared: kind(http.StatusUnauthorized, string(transport.LabelAddressShared), titleAddress,
			"There is no token, and several live pods are said to have the address: repeat the request in a moment, or present a token."),
		transport.LabelAddressTerminating: kind(http.StatusUnauthorized, string(transport.LabelAddressTerminating), titleAddress,
			"There is no token, and the pod with the address is being deleted: present a token, or submit before the pod ends."),
		transport.LabelAddressFinished: kind(http.StatusUnauthorized, string(transport.LabelAddressFinished), titleAddress,
			"There is no token, and the pod with the address has ended: present a token."),
		transport.LabelAddressUnchecked: kind(http.StatusServiceUnavailable, string(transport.LabelAddressUnchecked), titleUnknown,
			"There is no token, and whose the address is cannot be told now. Nothing was stored: repeat the request after the time in Retry-After."),
		transport.LabelServiceAccount: kind(http.StatusForbidden, string(transport.LabelServiceAccount), titleRights,
			"Its ServiceAccount or namespace is not allowed here."),
		transport.LabelForbidden: kind(http.StatusForbidden, string(transport.LabelForbidden), titleRights,
			"It lacks a verb on workpullingflows/jobs; the detail says which."),
		transport.LabelUnavailable: kind(http.StatusServiceUnavailable, "caller-unchecked", titleUnknown,
			"The API server does not answer. Nothing was stored: repeat the request after the time in Retry-After."),
		transport.LabelCoolingDown: kind(http.StatusServiceUnavailable, string(transport.LabelCoolingDown), titleUnknown,
			"It has sent too much that is malformed. Nothing was stored: repeat the request after the time in Retry-After."),
	}
)
