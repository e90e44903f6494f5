package fencing

import (
	"context"
	"errors"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// judged is a remembered look at a token that was fine.
type judged struct {
	who     identity
	expires time.Time
	serial  uint64
}

// identify says whose a token is: offline where the keys of the cluster are known, and by TokenReview where the API server does not give
// them away or nobody else can tell.
func (g *Guard) identify(ctx context.Context, r *reviewer, token string) (identity, error) {
	state := g.known(ctx)
	if found := peek(token, g.options.Audience, state.audiences); found != tokenFine {
		return identity{}, g.refusalOf(found)
	}
	if usable := state.usable(g.options.Clock.Now()); state.denied || !usable {
		who, err := r.token(ctx, token)
		if !isUndecided(err) || !usable {
			return who, err
		}
	}
	return g.offline(ctx, r, token)
}

// known are the keys, after a question for them where there are none and the time for one has come.
func (g *Guard) known(ctx context.Context) ringState {
	if state := g.keys.look(); state.usable(g.options.Clock.Now()) {
		return state
	}
	if g.keys.due() {
		_ = g.keys.refresh(ctx) // its result is the state
	}
	return g.keys.look()
}

// offline judges a token with the keys.
func (g *Guard) offline(ctx context.Context, r *reviewer, token string) (identity, error) {
	state := g.keys.look()
	who, expires, found := g.judge(token, state)
	if found == tokenUnknownKey && state.issued(token) {
		if err := g.keys.refreshForKey(ctx); err != nil && g.keys.look().serial == state.serial {
			return identity{}, g.keys.undecided(err)
		}
		state = g.keys.look()
		who, expires, found = g.judge(token, state)
	}
	switch found {
	case tokenFine:
		g.offlines.Add(1)
		return who, g.revoked(ctx, r, token, who)
	case tokenExpired:
		if r == g.workers && g.stopped(ctx, state, expires) {
			g.offlines.Add(1)
			return who, nil
		}
	case tokenOtherIssuer, tokenOtherObject:
		return g.reviewed(ctx, r, token, found)
	case tokenMalformed, tokenUnknownKey, tokenForged:
		if state.issued(token) {
			break
		}
		if r == g.submitters {
			return g.reviewed(ctx, r, token, found) // a user that is no ServiceAccount
		}
		if found != tokenMalformed {
			found = tokenOtherIssuer
		}
	case tokenLegacy, tokenOwnAudience, tokenAudience, tokenEarly, tokenNoIdentity: // refused for what they are
	}
	return identity{}, g.refusalOf(found)
}

// judge verifies a token, or remembers that it was fine.
func (g *Guard) judge(token string, state ringState) (identity, time.Time, finding) {
	now := state.now(g.options.Clock.Now())
	hash := key("offline", token)
	if known, ok := g.judgements.Get(hash); ok {
		if j := known.(judged); j.serial == state.serial && now.Before(j.expires) {
			return j.who, j.expires, tokenFine
		}
	}
	who, expires, found := state.judge(token, g.options.Audience, now)
	if found == tokenFine {
		g.judgements.Add(hash, judged{who: who, expires: expires, serial: state.serial})
	}
	return who, expires, found
}

// reviewed has the API server judge what cannot be judged here.
func (g *Guard) reviewed(ctx context.Context, r *reviewer, token string, found finding) (identity, error) {
	who, err := r.token(ctx, token)
	if refusal, ok := errors.AsType[*transport.Refusal](err); ok && refusal.Label == transport.LabelTokenInvalid && found == tokenOtherIssuer {
		return identity{}, g.refusalOf(found)
	}
	return who, err
}

// revoked asks whether the ServiceAccount or pod of a submitter is gone, which its token does not tell. Silence is no objection. A worker's
// pod is looked at by the Guard itself.
func (g *Guard) revoked(ctx context.Context, r *reviewer, token string, who identity) error {
	if r != g.submitters {
		return nil
	}
	if _, err := r.confirm(ctx, token, who); err != nil && !isUndecided(err) {
		return err
	}
	return nil
}

// stopped says whether a worker's token ended after the API server was last heard, while it is away: then kubelet cannot have renewed it,
// and it counts on. Time stands still for what only the API server can renew.
func (g *Guard) stopped(ctx context.Context, state ringState, expires time.Time) bool {
	heard := state.now(state.read)
	if heard.Add(-leeway).After(expires) {
		return false
	}
	err := g.keys.refreshForKey(ctx)
	now := g.keys.look()
	return err != nil && now.serial == state.serial && now.trouble != nil && !now.denied
}

func isUndecided(err error) bool {
	refusal, ok := errors.AsType[*transport.Refusal](err)
	return ok && refusal.Code == protocol.RefusedUnavailable
}

// refusalOf says why a token is refused (B-082).
func (g *Guard) refusalOf(found finding) *transport.Refusal {
	return classifyFinding(found, g.options.Audience)
}

func classifyFinding(found finding, audience string) *transport.Refusal {
	switch found {
	case tokenUnknownKey:
		return refuse(transport.LabelTokenKey, retryLater, "the token is signed with a key that this cluster has not")
	case tokenForged:
		return refuse(transport.LabelTokenSignature, retryLater, "the signature of the token is wrong")
	case tokenLegacy:
		return refuse(transport.LabelTokenLegacy, retryLater, "the token is a legacy one from a Secret: use a projected token of audience "+audience)
	case tokenOtherIssuer:
		return refuse(transport.LabelTokenIssuer, retryLater, "the token is of another issuer than the ServiceAccount tokens of this cluster")
	case tokenOwnAudience:
		return refuse(transport.LabelTokenDefaultAudience, retryLater, "the token was issued for the API server and not for "+audience)
	case tokenAudience:
		return wrongAudience(audience)
	case tokenExpired:
		return refuse(transport.LabelTokenExpired, retrySoon, "the token has expired")
	case tokenEarly:
		return undecided("the token is not valid yet: the clock of the producer's node is behind the API server's")
	case tokenOtherObject:
		return refuse(transport.LabelTokenUnbound, retryLater, "the token is bound to something else than a pod")
	case tokenMalformed, tokenNoIdentity, tokenFine:
	}
	return refuse(transport.LabelTokenInvalid, retryLater, "the token is no ServiceAccount token of this cluster")
}
