package fencing

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"

	"github.com/workpulling/workpulling/runtime/transport"
)

// Pace of the questions for the key set, and how far its answers reach.
const (
	// keysEvery is how often a key set is read again at least, and at most twice that: a key that the cluster removed is out then.
	keysEvery = 5 * time.Minute
	// keysAtMost bounds the questions that tokens with an unknown key cause.
	keysAtMost = 30 * time.Second
	// keysRetry is the first pause after a question that was not answered, for tokens with an unknown key and where no key is known; it
	// doubles up to keysAtMost. An API server that starts with a new signing key must not cost its first tokens more than that.
	keysRetry = time.Second
	// keysTrusted is how long keys count that could not be read again: an outage of the API server must not stop the flow, and a key
	// that was withdrawn during one must not count for ever.
	keysTrusted = 24 * time.Hour
	keysTimeout = 5 * time.Second
	// clockNoise is the difference of two clocks that is none: the Date of an answer has whole seconds.
	clockNoise = 5 * time.Second
)

// KeySource reads the cluster's JWKS. date is what the API server says the time is; zero where it does not.
type KeySource interface {
	FetchKeys(ctx context.Context) (jwks []byte, date time.Time, err error)
}

// keysRecord is what the file keeps.
type keysRecord struct {
	JWKS json.RawMessage `json:"jwks"`
	// Issuer and Audiences are those of our own token then.
	Issuer    string   `json:"issuer"`
	Audiences []string `json:"audiences"`
	// At is when the API server gave it, by its own clock, and Ahead how far that was ahead of ours.
	At    time.Time     `json:"at"`
	Ahead time.Duration `json:"ahead"`
}

// keyring keeps the key set of the cluster.
type keyring struct {
	source KeySource
	own    func() (string, error) // our token for the API server
	record record
	clock  clock.PassiveClock
	random func() float64
	log    logr.Logger

	flights singleflight.Group
	mu      sync.Mutex
	state   ringState
	allowed time.Time // when a token with an unknown key may cause a question
	next    time.Time // when the next one is due
	pause   time.Duration
}

// ringState is what is known.
type ringState struct {
	set       *keySet
	issuer    string
	audiences []string
	// read is when the set was read, by our clock; ahead is how far the API server's clock is ahead of it.
	read  time.Time
	ahead time.Duration
	// serial grows with each answer, so that what was judged with the set before is judged anew.
	serial uint64
	// trouble is why the last question was not answered. denied says that it was: no.
	trouble error
	denied  bool
}

// usable says whether tokens can be judged with the set.
func (s ringState) usable(now time.Time) bool {
	return s.set != nil && s.issuer != "" && now.Sub(s.read) < keysTrusted
}

// now is the time of the API server, which issues the tokens and whose clock their ends are meant for.
func (s ringState) now(ours time.Time) time.Time { return ours.Add(s.ahead) }

// judge verifies a token for an audience. now is the time of the API server.
func (s ringState) judge(token, audience string, now time.Time) (who identity, expires time.Time, found finding) {
	return judgeToken(token, s.set, expectation{issuer: s.issuer, audience: audience, serverAudiences: s.audiences, now: now})
}

// issued says whether a token claims to be one of a ServiceAccount of this cluster. Only then is a key that is not known worth a question.
func (s ringState) issued(token string) bool {
	issuer, _ := unverified(token)
	return issuer == s.issuer
}

// load takes in what an earlier process kept. It returns an error where there is a record that is no good.
func (k *keyring) load() error {
	var kept keysRecord
	err := k.record.read(&kept)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoRecord) {
		return nil
	}
	if err != nil {
		return err
	}
	set, err := parseKeys(kept.JWKS)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	read := kept.At.Add(-kept.Ahead)
	if read.After(now.Add(keysEvery)) {
		return errors.New("the key set was read in the future: the clock of this machine was changed")
	}
	k.state = ringState{set: set, issuer: kept.Issuer, audiences: kept.Audiences, read: read, ahead: kept.Ahead, serial: 1, trouble: errNotAsked}
	return nil
}

// errNotAsked is the trouble of a process that has just started.
var errNotAsked = errors.New("the API server was not asked yet")

// look returns what is known now.
func (k *keyring) look() ringState {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state
}

// due says whether the set is to be read again.
func (k *keyring) due() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.clock.Now().Before(k.next)
}

// errTooSoon says that the set was read a moment ago.
var errTooSoon = errors.New("the key set was asked for a moment ago")

// refreshForKey asks for the set on behalf of a token. Whatever tokens come, there is one answer in keysAtMost, and a question that was not
// answered is repeated after keysRetry at the soonest.
func (k *keyring) refreshForKey(ctx context.Context) error {
	return k.fly(ctx, func(ctx context.Context) error {
		if k.untilAllowed() > 0 {
			return errTooSoon
		}
		return k.ask(ctx)
	})
}

// undecided says when a token with a key that is not known can be judged.
func (k *keyring) undecided(err error) *transport.Refusal {
	if errors.Is(err, errTooSoon) {
		refusal := undecided("the token names a signing key that is not known yet; the key set of the cluster is read again soon")
		refusal.RetryAfter = max(retrySoon, k.untilAllowed())
		return refusal
	}
	return undecided("the token names a signing key that is not known, and the key set cannot be read: " + shortCause(err))
}

// untilAllowed is how long a token with an unknown key has to wait before it may cause a question; 0 for not at all.
func (k *keyring) untilAllowed() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return max(0, k.allowed.Sub(k.clock.Now()))
}

// refresh asks for the set, once for all who want to know at the same time.
func (k *keyring) refresh(ctx context.Context) error { return k.fly(ctx, k.ask) }

func (k *keyring) fly(ctx context.Context, ask func(context.Context) error) error {
	flight := k.flights.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keysTimeout)
		defer cancel()
		return nil, ask(ctx)
	})
	select {
	case result := <-flight:
		return result.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *keyring) ask(ctx context.Context) error {
	asked := k.clock.Now()
	k.mu.Lock()
	k.allowed = asked.Add(keysAtMost)
	k.mu.Unlock()
	raw, date, err := k.source.FetchKeys(ctx)
	if err != nil {
		return k.failed(err)
	}
	set, err := parseKeys(raw)
	if err != nil {
		return k.failed(err)
	}
	issuer, audiences := "", []string(nil)
	if token, err := k.own(); err == nil {
		issuer, audiences = unverified(strings.TrimSpace(token)) // it comes from kubelet
	}
	if issuer == "" {
		return k.failed(errors.New("our own token does not say who issued it"))
	}
	k.took(asked, keysRecord{JWKS: raw, Issuer: issuer, Audiences: audiences, At: date}, set)
	return nil
}

// took takes in an answer.
func (k *keyring) took(asked time.Time, answer keysRecord, set *keySet) {
	k.mu.Lock()
	now := k.clock.Now()
	before := k.state
	next := ringState{set: set, issuer: answer.Issuer, audiences: answer.Audiences, read: now, serial: before.serial + 1}
	if !answer.At.IsZero() {
		if ahead := answer.At.Sub(asked.Add(now.Sub(asked) / 2)); ahead.Abs() > clockNoise {
			next.ahead = ahead
		}
	}
	answer.At, answer.Ahead = next.now(now).Round(0), next.ahead
	k.state = next
	k.pause = 0
	k.next = now.Add(keysEvery + time.Duration(k.random()*float64(keysEvery)))
	k.mu.Unlock()
	if before.trouble != nil && before.set != nil || before.denied {
		k.log.Info("The key set of the cluster can be read again: tokens are verified with it")
	}
	if next.ahead.Abs() > leeway && before.ahead.Abs() <= leeway {
		k.log.Info("The clock of this node differs from the API server's; tokens are judged by the API server's", "ahead", next.ahead.String())
	}
	if err := k.record.write(answer); err != nil && !errors.Is(err, errNoRecord) {
		k.log.Error(err, "The key set cannot be kept for a restart of this process while the API server is away")
	}
}

// failed notes a question without an answer. The set that is known stays.
func (k *keyring) failed(err error) error {
	k.mu.Lock()
	before := k.state
	k.state.trouble, k.state.denied = err, denied(err)
	wait := keysAtMost
	if !k.state.denied {
		k.pause = min(max(2*k.pause, keysRetry), keysAtMost)
		k.allowed = k.clock.Now().Add(k.pause)
		if before.set == nil {
			wait = k.pause
		}
	}
	k.next = k.clock.Now().Add(wait + time.Duration(k.random()*float64(wait)/2))
	now := k.state
	k.mu.Unlock()
	if now.denied && !before.denied {
		k.log.Info("The API server does not give its key set away: no token can be verified with it", "cause", err.Error())
	} else if before.trouble == nil && before.set != nil && !now.denied {
		k.log.Info("The key set of the cluster cannot be read; the one that is known goes on counting", "cause", shortCause(err), "for", keysTrusted.String())
	}
	return err
}

// denied says that the API server answered that we do not get what we asked for, which is no outage.
func denied(err error) bool {
	return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
}
