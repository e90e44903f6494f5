package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// Authenticator decides who a peer is from the bearer token that it presents. Its errors are *Refusal where it knows why;
// any other error is answered as protocol.RefusedUnavailable, "retry later" (B-091).
type Authenticator interface {
	// AuthenticateWorker returns the pod behind a token that may bind to this flow.
	AuthenticateWorker(ctx context.Context, token string) (delivery.Worker, error)
	// AuthenticateSubmitter returns who may do what verb says (create, get, list, update, delete, read) with the jobs of this flow.
	AuthenticateSubmitter(ctx context.Context, token, verb string) (Submitter, error)
}

// Submitter is an authenticated and authorised caller of the intake.
type Submitter struct {
	// Subject is the user name as the API server knows it, such as system:serviceaccount:shop:orders; of a Neighbour the name of a
	// ServiceAccount of the flow's namespace.
	Subject string
	// Neighbour says that the caller presented no token: it is let in because its address is that of a pod which runs as Subject.
	Neighbour bool
	// Member says that the caller is another producer of the flow, which may say for whom it passes a request on.
	Member bool
}

// IncarnationAuthenticator is what an Authenticator is too that knows which of the processes of a pod may bind.
type IncarnationAuthenticator interface {
	// AuthenticateIncarnation decides, for each registration, about a process of a worker whose token was accepted. Errors are those of
	// AuthenticateWorker.
	AuthenticateIncarnation(ctx context.Context, worker delivery.Worker, bootNonce string) error
}

// Label says in one word why an identity was refused. Labels are values of a counter: a small closed set (B-082).
type Label string

const (
	LabelTokenMissing         Label = "token-missing"                // no bearer token
	LabelTokenInvalid         Label = "token-invalid"                // not a token of this cluster, or tampered with
	LabelTokenExpired         Label = "token-expired"                // expired
	LabelTokenAudience        Label = "token-audience"               // issued for another audience
	LabelTokenIssuer          Label = "token-issuer"                 // of another issuer than the tokens of this cluster
	LabelTokenKey             Label = "token-key"                    // signed with a key that this cluster has not
	LabelTokenSignature       Label = "token-signature"              // the signature is wrong
	LabelTokenLegacy          Label = "token-legacy"                 // from a Secret, without audience and end
	LabelTokenDefaultAudience Label = "token-default-audience"       // issued for the API server
	LabelTokenUnbound         Label = "token-unbound"                // not bound to a pod
	LabelPodDeleted           Label = "pod-deleted"                  // bound to an object that is gone
	LabelPodUnknown           Label = "pod-unknown"                  // no such pod UID in the namespace
	LabelPodTerminating       Label = "pod-terminating"              // the pod is being deleted
	LabelPodForeign           Label = "pod-foreign"                  // no pool of this flow owns the pod (B-083)
	LabelLeaseHeld            Label = "lease-held"                   // another process of the pod holds its Lease (B-087, B-089)
	LabelLeaseDeleted         Label = "lease-deleted"                // the pod's Lease was deleted under the process
	LabelLeaseMissing         Label = "lease-missing"                // the process does not hold its pod's Lease yet
	LabelServiceAccount       Label = "serviceaccount"               // ServiceAccount or namespace not allowed (B-267)
	LabelForbidden            Label = "forbidden"                    // authenticated, but not authorised
	LabelAddressUnknown       Label = "address-unknown"              // no token, and no live pod of the namespace has the address
	LabelAddressHost          Label = "address-host"                 // no token, and the address is that of a node
	LabelAddressShared        Label = "address-shared"               // no token, and several live pods are said to have the address
	LabelAddressTerminating   Label = "address-terminating"          // no token, and the pod with the address is being deleted
	LabelAddressFinished      Label = "address-finished"             // no token, and the pod with the address has ended
	LabelAddressUnchecked     Label = "address-unchecked"            // no token, and whose the address is cannot be told now
	LabelUnavailable          Label = "unavailable"                  // cannot decide now
	LabelCoolingDown          Label = "cooling-down"                 // too many malformed frames (B-204)
	LabelPeerMismatch         Label = "registration-of-another-peer" // the registration names another pod than the token (B-081)
)

// Refusal is the error of an Authenticator.
type Refusal struct {
	Code       protocol.RefusalCode
	Label      Label
	Reason     string
	RetryAfter time.Duration
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s (%s): %s", r.Code, r.Label, r.Reason) }

// AsRefusal returns the refusal in err, or "retry later" for an error that is none.
func AsRefusal(err error) *Refusal {
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return refusal
	}
	return &Refusal{
		Code: protocol.RefusedUnavailable, Label: LabelUnavailable, RetryAfter: time.Second,
		Reason: "the identity cannot be checked now; try again",
	}
}

// Status is the gRPC status that ends a stream which was refused.
func (r *Refusal) Status() error {
	code := codes.Unauthenticated
	switch r.Label {
	case LabelUnavailable, LabelAddressUnchecked, LabelCoolingDown, LabelLeaseMissing:
		code = codes.Unavailable
	case LabelForbidden, LabelPodForeign, LabelServiceAccount, LabelPeerMismatch:
		code = codes.PermissionDenied
	default: // something is wrong with the token
	}
	return status.Error(code, r.Error())
}
