package fencing

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/workpulling/workpulling/runtime/transport"
)

const (
	// mostGrants bounds the permissions that are kept for the next process: those that were confirmed last.
	mostGrants = 1000
	// grantNews is how much later than the one that is kept a confirmation has to be, so that a submitter at work is not a write every
	// half a minute. A permission counts for less by no more than that in the next process.
	grantNews = 5 * time.Minute
)

// grant is a permission that the API server gave. Whose it is tells the hash of the token alone, so the file gives nothing away.
type grant struct {
	Key string    `json:"key"`
	At  time.Time `json:"at"`
}

// grants are the permissions that outlast this process, because an outage may not end with its restart.
type grants struct {
	changed func(within time.Duration)

	mu sync.Mutex
	at map[[sha256.Size]byte]time.Time
}

// given notes a yes of the API server.
func (g *grants) given(key [sha256.Size]byte, at time.Time) {
	g.mu.Lock()
	before, known := g.at[key]
	news := !known || at.Sub(before) >= grantNews
	if news {
		g.at[key] = at
	}
	g.mu.Unlock()
	if news {
		g.changed(recordNews)
	}
}

// withdrawn notes a no.
func (g *grants) withdrawn(key [sha256.Size]byte) {
	g.mu.Lock()
	_, known := g.at[key]
	delete(g.at, key)
	g.mu.Unlock()
	if known {
		g.changed(recordDeletions)
	}
}

func permissionOf(verb, token string) [sha256.Size]byte { return key("access "+verb, token) }

// revoked notes that the pod or account of a token is gone: the next process must not take it for good while nobody answers.
func (g *grants) revoked(token string) {
	for _, verb := range transport.Verbs() {
		g.withdrawn(permissionOf(verb, token))
	}
}

// kept are the grants that still count at a moment, the newest first. What they leave out is forgotten.
func (g *grants) kept(now time.Time) (out []grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, at := range g.at {
		if now.Sub(at) >= accessTolerance {
			delete(g.at, key)
			continue
		}
		out = append(out, grant{Key: hex.EncodeToString(key[:]), At: at.UTC().Truncate(time.Second)})
	}
	slices.SortFunc(out, func(a, b grant) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Key, b.Key)) })
	most := min(len(out), mostGrants)
	for _, one := range out[most:] {
		if key, ok := one.key(); ok {
			delete(g.at, key)
		}
	}
	return out[:most]
}

func (g grant) key() (key [sha256.Size]byte, ok bool) {
	raw, err := hex.DecodeString(g.Key)
	return key, err == nil && copy(key[:], raw) == sha256.Size && len(raw) == sha256.Size
}

// recallGrants takes in the permissions of an earlier process. Those of the future are of a clock that was changed.
func (r *reviewer) recallGrants(earlier []grant) {
	for _, one := range earlier {
		key, ok := one.key()
		if !ok || one.At.After(r.clock.Now()) {
			continue
		}
		r.granted.at[key] = one.At
		r.cache.Add(key, verdict{at: one.At}) // it has to be confirmed, and counts where nobody answers
	}
}
