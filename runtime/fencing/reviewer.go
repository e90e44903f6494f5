package fencing

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"golang.org/x/sync/singleflight"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/runtime/transport"
)

// How long an answer counts. Tokens outlive their pod by about a minute anyway; the pod itself is looked at every time.
const (
	positiveTTL   = 30 * time.Second
	negativeTTL   = 5 * time.Second
	cacheEntries  = 8192
	reviewTimeout = 5 * time.Second
	// accessTolerance is how long a permission counts that cannot be looked at again.
	accessTolerance = time.Hour
	// patience is how long an answer is waited for where an older one would do; not at all for awayFor after one that did not come.
	patience = time.Second
	awayFor  = 5 * time.Second
	// deniedFor is how long nothing is reviewed that need not be after the API server has refused to do that for us.
	deniedFor = time.Minute
)

// reviewer asks the API server about tokens and permissions, with a memory of seconds.
type reviewer struct {
	audience  string
	namespace string
	flow      string
	tokens    TokenReviewer
	access    AccessReviewer
	clock     clock.PassiveClock
	cache     *lru.Cache
	flights   singleflight.Group
	granted   grants

	mu     sync.Mutex
	away   time.Time // when a question was last not answered; zero after an answer
	denied time.Time // when the API server last refused to review tokens for us; zero after a review
	asked  uint64    // token reviews that were answered
}

// verdict is a remembered answer: an identity or a refusal.
type verdict struct {
	who     identity
	refusal *transport.Refusal
	at      time.Time
	until   time.Time
}

// newReviewer returns a reviewer; changed is told of news among the permissions.
func newReviewer(o Options, tokens TokenReviewer, access AccessReviewer, changed func(within time.Duration)) *reviewer {
	return &reviewer{
		audience: o.Audience, namespace: o.Namespace, flow: o.Flow,
		tokens: tokens, access: access, clock: o.Clock, cache: lru.New(cacheEntries),
		granted: grants{changed: changed, at: map[[sha256.Size]byte]time.Time{}},
	}
}

// token reviews a token.
func (r *reviewer) token(ctx context.Context, token string) (identity, error) {
	v, err := r.remembered(ctx, key("token", token), nil, r.review(token))
	return v.who, err
}

// confirm reviews a token that was verified offline. It takes no answer for a good one, unless the last one was that whose the token is is
// gone: that nothing brings back.
func (r *reviewer) confirm(ctx context.Context, token string, who identity) (identity, error) {
	instead := func(before verdict) *verdict {
		if before.isGone() {
			return &before
		}
		return &verdict{who: who}
	}
	if r.isDenied() {
		known := instead(r.known(key("token", token)))
		return who, known.err()
	}
	v, err := r.remembered(ctx, key("token", token), instead, r.review(token))
	return v.who, err
}

// known is what was answered before, if anything was.
func (r *reviewer) known(key [sha256.Size]byte) verdict {
	if known, ok := r.cache.Get(key); ok {
		return known.(verdict)
	}
	return verdict{}
}

// isGone says whether the API server has said that the pod or account of a token is no more.
func (v verdict) isGone() bool {
	return v.refusal != nil && v.refusal.Label == transport.LabelPodDeleted
}

func (r *reviewer) review(token string) func(context.Context) (verdict, error) {
	return func(ctx context.Context) (verdict, error) {
		review, err := r.tokens.ReviewToken(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{r.audience}},
		})
		r.noteReview(err)
		if err != nil {
			return verdict{}, err
		}
		who, refusal := classifyReview(review.Status, r.audience)
		v := verdict{who: who, refusal: refusal}
		if v.isGone() {
			r.granted.revoked(token)
		}
		return v, nil
	}
}

// noteReview remembers whether the API server reviews tokens for us at all.
func (r *reviewer) noteReview(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.denied = time.Time{}
		r.asked++
	case denied(err):
		r.denied = r.clock.Now()
	}
}

// reviews counts the tokens that the API server has reviewed.
func (r *reviewer) reviews() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// isRefused says whether the last answer to a review was that we may not ask.
func (r *reviewer) isRefused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.denied.IsZero()
}

// isDenied says whether the API server has just refused to review tokens for us.
func (r *reviewer) isDenied() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.denied.IsZero() && r.clock.Since(r.denied) < deniedFor
}

// allowed asks whether an identified user may do verb with the jobs of the flow. Where nobody answers, an earlier yes counts on for a while;
// an earlier no does not.
func (r *reviewer) allowed(ctx context.Context, token, verb string, who identity) error {
	permission := permissionOf(verb, token)
	_, err := r.remembered(ctx, permission, r.earlierYes, func(ctx context.Context) (verdict, error) {
		extra := make(map[string]authorizationv1.ExtraValue, len(who.user.Extra))
		for name, values := range who.user.Extra {
			extra[name] = authorizationv1.ExtraValue(values)
		}
		review, err := r.access.ReviewAccess(ctx, &authorizationv1.LocalSubjectAccessReview{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace},
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: who.user.Username, UID: who.user.UID, Groups: who.user.Groups, Extra: extra,
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: r.namespace, Verb: verb, Group: v1alpha1.GroupVersion.Group, Version: "*",
					Resource: "workpullingflows", Subresource: "jobs", Name: r.flow,
				},
			},
		})
		if err != nil {
			return verdict{}, err
		}
		if !review.Status.Allowed {
			r.granted.withdrawn(permission)
			return verdict{refusal: refuse(transport.LabelForbidden, retryLater,
				who.user.Username+" may not "+verb+" workpullingflows/jobs of "+r.flow+" in namespace "+r.namespace)}, nil
		}
		r.granted.given(permission, r.clock.Now())
		return verdict{}, nil
	})
	return err
}

// earlierYes is the answer to fall back on: the one before, if it was yes and is not too old.
func (r *reviewer) earlierYes(before verdict) *verdict {
	if before.at.IsZero() || before.refusal != nil || r.clock.Since(before.at) >= accessTolerance {
		return nil
	}
	return &before
}

// remembered answers from memory, or asks once for all who want to know at the same time. An error of ask is "cannot decide now" and is
// not remembered; then instead, given what was answered before, says what counts, nil for nothing. A nil instead is none at all.
func (r *reviewer) remembered(
	ctx context.Context, key [sha256.Size]byte, instead func(before verdict) *verdict, ask func(context.Context) (verdict, error),
) (verdict, error) {
	before := r.known(key)
	if r.clock.Now().Before(before.until) {
		return before, before.err()
	}
	var fallback *verdict
	if instead != nil {
		fallback = instead(before)
	}
	flight := r.flights.DoChan(string(key[:]), func() (any, error) {
		// The flight outlives the caller that happened to start it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		v, err := ask(ctx)
		r.noteAnswer(err)
		if err != nil {
			return verdict{}, err
		}
		ttl := positiveTTL
		if v.refusal != nil {
			ttl = negativeTTL
		}
		v.at = r.clock.Now()
		v.until = v.at.Add(ttl)
		r.cache.Add(key, v)
		return v, nil
	})
	return r.await(ctx, flight, fallback)
}

// await waits for an answer, and takes the fallback for one that does not come.
func (r *reviewer) await(ctx context.Context, flight <-chan singleflight.Result, fallback *verdict) (verdict, error) {
	var enough <-chan time.Time
	if fallback != nil {
		timer := time.NewTimer(r.patience())
		defer timer.Stop()
		enough = timer.C
	}
	var cause string
	select {
	case result := <-flight:
		if result.Err == nil {
			v := result.Val.(verdict)
			return v, v.err()
		}
		cause = "the API server did not review the token: " + shortCause(result.Err)
	case <-enough:
	case <-ctx.Done():
		cause = "the API server did not review the token in time"
	}
	if fallback != nil {
		return *fallback, fallback.err()
	}
	return verdict{}, undecided(cause)
}

// noteAnswer remembers whether the API server answers.
func (r *reviewer) noteAnswer(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = time.Time{}
	if err != nil {
		r.away = r.clock.Now()
	}
}

// patience is how long to wait where there is something to fall back on.
func (r *reviewer) patience() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.away.IsZero() && r.clock.Since(r.away) < awayFor {
		return 0
	}
	return patience
}

// err avoids a nil pointer inside a non-nil error.
func (v verdict) err() error {
	if v.refusal == nil {
		return nil
	}
	return v.refusal
}

// key keeps tokens out of memory that lives longer than a request.
func key(kind, token string) [sha256.Size]byte {
	return sha256.Sum256([]byte(kind + "\x00" + token))
}

// shortCause says what failed without the URLs that client errors carry.
func shortCause(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	if reason := reasonOf(err); reason != "" {
		return reason
	}
	return "unreachable"
}
