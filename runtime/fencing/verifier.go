package fencing

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/workpulling/workpulling/runtime/transport"
)

// Verifier says which pod a token is bound to, by the keys of the cluster alone: for a process that may have no token reviewed.
type Verifier struct {
	keys     *keyring
	audience string
}

// PodToken is what a token that is bound to a pod says of it. Whether the pod is still there it does not tell.
type PodToken struct{ Namespace, ServiceAccount, Pod, PodUID string }

// NewVerifier returns a Verifier of tokens of an audience. The keys are read from the API server of config, which must present a token of a
// ServiceAccount: the issuer of that one is the issuer that others must have. random returns a number in [0, 1).
func NewVerifier(config *rest.Config, audience string, clock clock.PassiveClock, random func() float64, log logr.Logger) (*Verifier, error) {
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection to the API server: %w", err)
	}
	keys, err := newKeyClient(config, web)
	if err != nil {
		return nil, err
	}
	return &Verifier{audience: audience, keys: &keyring{source: keys, own: presented(config), clock: clock, random: random, log: log}}, nil
}

// Verify judges one token. Its errors are *transport.Refusal. Keys that could not be read again count for a day, and a token counts until its
// end and no longer.
func (v *Verifier) Verify(ctx context.Context, token string) (PodToken, error) {
	if v.keys.due() {
		_ = v.keys.refresh(ctx) // its result is the state
	}
	state, now := v.keys.look(), v.keys.clock.Now()
	if !state.usable(now) {
		return PodToken{}, v.unusable(state)
	}
	if found := peek(token, v.audience, state.audiences); found != tokenFine {
		return PodToken{}, classifyFinding(found, v.audience)
	}
	who, _, found := state.judge(token, v.audience, state.now(now))
	if found == tokenUnknownKey && state.issued(token) {
		if err := v.keys.refreshForKey(ctx); err != nil && v.keys.look().serial == state.serial {
			return PodToken{}, v.keys.undecided(err)
		}
		state = v.keys.look()
		who, _, found = state.judge(token, v.audience, state.now(v.keys.clock.Now()))
	}
	switch {
	case found != tokenFine:
		return PodToken{}, classifyFinding(found, v.audience)
	case who.podName == "" || who.podUID == "":
		return PodToken{}, refuse(transport.LabelTokenUnbound, retryLater, "the token is not bound to a pod")
	}
	return PodToken{Namespace: who.namespace, ServiceAccount: who.serviceAccount, Pod: who.podName, PodUID: who.podUID}, nil
}

// unusable says why no token can be judged.
func (v *Verifier) unusable(state ringState) *transport.Refusal {
	if state.denied {
		return undecided("the API server does not give its key set away: see ClusterRole system:service-account-issuer-discovery")
	}
	return undecided("no key set of the cluster is known: " + shortCause(state.trouble))
}
