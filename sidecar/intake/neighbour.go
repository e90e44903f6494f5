package intake

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// Neighbours decides who may submit without a token, where a flow trusts its namespace; *fencing.Neighbours is one.
type Neighbours interface {
	// Trusted says whether anybody may; it may change.
	Trusted() bool
	// Admit returns as whom a caller from an address submits, or a *transport.Refusal.
	Admit(ctx context.Context, address netip.Addr) (transport.Submitter, error)
}

// headerNeighbour says as whom a caller without a token submits that a standby has let in. It counts together with the token of a producer of
// the flow alone.
const headerNeighbour = "Workpulling-Neighbour"

// identityTimeout bounds the check of one caller.
const identityTimeout = 5 * time.Second

// beside says whether a verb is one of an app: it submits and looks up. The others are a person's, and always need a token.
func beside(verb string) bool { return verb == transport.VerbCreate || verb == transport.VerbGet }

// byAddress says whether a request is judged by the address that it comes from. One with a token never is, whatever becomes of that; nor one
// that a standby has passed on, for it comes from the standby's address.
func (i *Intake) byAddress(r *http.Request, verb string) bool {
	_, presented := r.Header["Authorization"]
	_, passedOn := r.Header[headerHop]
	return i.trusting() && beside(verb) && !presented && !passedOn
}

func (i *Intake) trusting() bool {
	return i.options.Neighbours != nil && i.options.Neighbours.Trusted()
}

// caller says who sends a request that came over the network.
func (i *Intake) caller(r *http.Request, verb string) (transport.Submitter, error) {
	ctx, cancel := context.WithTimeout(r.Context(), identityTimeout)
	defer cancel()
	if i.byAddress(r, verb) {
		return i.neighbour(ctx, r)
	}
	token, err := transport.ParseBearer(r.Header.Get("Authorization"))
	if err != nil {
		return transport.Submitter{}, err
	}
	submitter, err := i.options.Authorizer.AuthenticateSubmitter(ctx, token, verb)
	if err != nil {
		return transport.Submitter{}, transport.AsRefusal(err)
	}
	if account := r.Header.Get(headerNeighbour); account != "" && submitter.Member {
		return i.vouched(account)
	}
	return submitter, nil
}

// neighbour judges a caller without a token.
func (i *Intake) neighbour(ctx context.Context, r *http.Request) (transport.Submitter, error) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return transport.Submitter{}, &transport.Refusal{
			Code: protocol.RefusedIdentity, Label: transport.LabelAddressUnknown, Reason: "the caller has no address: present a ServiceAccount token",
		}
	}
	return i.options.Neighbours.Admit(ctx, from.Addr())
}

// vouched is a caller whom another producer of the flow has let in without a token, if this one would let it in too.
func (i *Intake) vouched(account string) (transport.Submitter, error) {
	if !i.trusting() {
		return transport.Submitter{}, &transport.Refusal{
			Code: protocol.RefusedIdentity, Label: transport.LabelTokenMissing,
			Reason: "the producer that owns the queue asks for a ServiceAccount token as \"Authorization: Bearer\"",
		}
	}
	return transport.Submitter{Subject: account, Neighbour: true}, nil
}

// passOn passes a request that came over the network on, if this process stands by. A caller without a token is judged here, where its address
// is seen, and goes along under this pod's own token.
func (i *Intake) passOn(w http.ResponseWriter, r *http.Request, verb string) bool {
	if !i.byAddress(r, verb) {
		return i.elsewhere(w, r, nil)
	}
	return i.elsewhere(w, r, func(header http.Header) error {
		ctx, cancel := context.WithTimeout(r.Context(), identityTimeout)
		defer cancel()
		by, err := i.neighbour(ctx, r)
		if err != nil {
			return err
		}
		header.Set(headerNeighbour, by.Subject)
		return i.options.Relay.ownToken(header)
	})
}

// unpassed is the answer to a request that could not be given a credential to be passed on with.
func (i *Intake) unpassed(err error) problem {
	refusal, ok := errors.AsType[*transport.Refusal](err)
	if !ok {
		return lost()
	}
	i.options.OnRefusal(refusal)
	return problemOf(refusal)
}
