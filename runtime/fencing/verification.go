package fencing

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Way is how tokens are verified.
type Way string

const (
	// Offline: by signature, with the keys of the cluster.
	Offline Way = "Offline"
	// Reviewed: by the API server, because it does not give its keys away.
	Reviewed Way = "TokenReview"
	// Nowise: the API server neither gives its keys away nor reviews tokens for us. Its silence is no such answer.
	Nowise Way = "Unavailable"
)

// Verification tells how tokens are verified, for people and for metrics.
type Verification struct {
	// Way is empty where the API server has not answered yet, or is silent for so long that the keys do not count any more.
	Way     Way
	Message string
	// Offline and Reviewed count the checks of each kind, BadRecords the files of earlier processes that were no good.
	Offline, Reviewed, BadRecords uint64
	// KeysAge is how long ago the keys were read, if they were.
	KeysAge  time.Duration
	KeysRead bool
}

// Verification returns how tokens are verified now.
func (g *Guard) Verification() Verification {
	now, state := g.options.Clock.Now(), g.keys.look()
	v := Verification{
		Offline: g.offlines.Load(), BadRecords: g.badRecords.Load(),
		Reviewed: g.workers.reviews() + g.submitters.reviews(), KeysRead: state.set != nil,
	}
	if v.KeysRead {
		v.KeysAge = now.Sub(state.read)
	}
	v.Way, v.Message = wayOf(state, now, g.workers.isRefused() || g.submitters.isRefused())
	return v
}

// wayOf classifies what is known of the keys and of the right to have tokens reviewed.
func wayOf(state ringState, now time.Time, unreviewed bool) (Way, string) {
	usable := state.usable(now)
	switch {
	case state.denied && !unreviewed:
		return Reviewed, "the API server does not give its key set away: " + shortCause(state.trouble)
	case usable && state.denied:
		return Offline, "the API server gives its key set away no more and reviews no tokens; the keys of before count until " + untilText(state)
	case usable && state.trouble != nil:
		return Offline, "the key set cannot be read at the moment; the keys of before count until " + untilText(state)
	case usable:
		return Offline, ""
	case state.denied:
		return Nowise, "the API server neither gives its key set away nor reviews tokens: see ClusterRoles system:service-account-issuer-discovery and workpulling-token-reviewer"
	case state.trouble != nil:
		return "", "no key set is known, and the API server does not answer: " + shortCause(state.trouble)
	}
	return "", ""
}

func untilText(state ringState) string {
	return fmt.Sprintf("%s UTC", state.now(state.read).Add(keysTrusted).UTC().Format("2006-01-02 15:04"))
}

// probe finds out whether the API server reviews tokens for us where it does not give its keys away, before somebody depends on it.
func (g *Guard) probe(ctx context.Context) {
	if !g.keys.look().denied {
		return
	}
	if token, err := g.clients.OwnToken(); err == nil {
		ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
		defer cancel()
		_, _ = g.workers.review(strings.TrimSpace(token))(ctx) // whether it is answered is noted
	}
}
