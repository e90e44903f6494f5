package fencing

import (
	"context"
	"crypto/sha256"
	"errors"
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
}

// verdict is a remembered answer: an identity or a refusal.
type verdict struct {
	who     identity
	refusal *transport.Refusal
	until   time.Time
}

func newReviewer(o Options, tokens TokenReviewer, access AccessReviewer) *reviewer {
	return &reviewer{
		audience: o.Audience, namespace: o.Namespace, flow: o.Flow,
		tokens: tokens, access: access, clock: o.Clock, cache: lru.New(cacheEntries),
	}
}

// token reviews a token.
func (r *reviewer) token(ctx context.Context, token string) (identity, error) {
	if forOthers(token, r.audience) {
		return identity{}, wrongAudience(r.audience)
	}
	v, err := r.remembered(ctx, key("token", token), func(ctx context.Context) (verdict, error) {
		review, err := r.tokens.ReviewToken(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{r.audience}},
		})
		if err != nil {
			return verdict{}, err
		}
		who, refusal := classifyReview(review.Status, r.audience)
		return verdict{who: who, refusal: refusal}, nil
	})
	return v.who, err
}

// allowed asks whether a reviewed user may do verb with the jobs of the flow.
func (r *reviewer) allowed(ctx context.Context, token, verb string, who identity) error {
	_, err := r.remembered(ctx, key("access "+verb, token), func(ctx context.Context) (verdict, error) {
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
			return verdict{refusal: refuse(transport.LabelForbidden, retryLater,
				who.user.Username+" may not "+verb+" workpullingflows/jobs of "+r.flow+" in namespace "+r.namespace)}, nil
		}
		return verdict{}, nil
	})
	return err
}

// remembered answers from memory, or asks once for all who want to know at the same time. An error of ask is "cannot decide
// now" and is not remembered.
func (r *reviewer) remembered(ctx context.Context, key [sha256.Size]byte, ask func(context.Context) (verdict, error)) (verdict, error) {
	if known, ok := r.cache.Get(key); ok {
		if v := known.(verdict); r.clock.Now().Before(v.until) {
			return v, v.err()
		}
	}
	flight := r.flights.DoChan(string(key[:]), func() (any, error) {
		// The flight outlives the caller that happened to start it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		v, err := ask(ctx)
		if err != nil {
			return verdict{}, err
		}
		ttl := positiveTTL
		if v.refusal != nil {
			ttl = negativeTTL
		}
		v.until = r.clock.Now().Add(ttl)
		r.cache.Add(key, v)
		return v, nil
	})
	select {
	case result := <-flight:
		if result.Err != nil {
			return verdict{}, undecided("the API server did not review the token: " + shortCause(result.Err))
		}
		v := result.Val.(verdict)
		return v, v.err()
	case <-ctx.Done():
		return verdict{}, undecided("the API server did not review the token in time")
	}
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
