package fencing

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// Extra keys of a review of a token that is bound to a pod.
const (
	extraPodName = "authentication.kubernetes.io/pod-name"
	extraPodUID  = "authentication.kubernetes.io/pod-uid"
)

// identity is what a review says about a token.
type identity struct {
	user authenticationv1.UserInfo
	// namespace and serviceAccount are empty for a user that is no ServiceAccount.
	namespace, serviceAccount string
	// podName and podUID are empty for a token that is not bound to a pod.
	podName, podUID string
}

// How long a refused peer should wait: what changes within seconds is asked for sooner.
const (
	retrySoon  = 2 * time.Second
	retryLater = 10 * time.Second
)

func refuse(label transport.Label, after time.Duration, reason string) *transport.Refusal {
	return &transport.Refusal{Code: protocol.RefusedIdentity, Label: label, Reason: reason, RetryAfter: after}
}

func undecided(reason string) *transport.Refusal {
	return &transport.Refusal{Code: protocol.RefusedUnavailable, Label: transport.LabelUnavailable, Reason: reason, RetryAfter: retrySoon}
}

// classifyReview judges the answer to a TokenReview that asked for audience (B-082). The API server gives its reasons as text
// only; what is not recognised is an invalid token.
func classifyReview(status authenticationv1.TokenReviewStatus, audience string) (identity, *transport.Refusal) {
	if !status.Authenticated {
		switch text := status.Error; {
		case strings.Contains(text, "audience"):
			return identity{}, wrongAudience(audience)
		case strings.Contains(text, "expired"):
			return identity{}, refuse(transport.LabelTokenExpired, retrySoon, "the token has expired")
		case strings.Contains(text, "invalidated"), strings.Contains(text, "deleted"), strings.Contains(text, "does not match"):
			return identity{}, refuse(transport.LabelPodDeleted, retryLater, "the pod or ServiceAccount that the token is bound to is gone")
		default:
			return identity{}, refuse(transport.LabelTokenInvalid, retryLater, "the token is not valid in this cluster")
		}
	}
	// A server that does not know audiences leaves them out: then the token was not made for us.
	if !slices.Contains(status.Audiences, audience) {
		return identity{}, wrongAudience(audience)
	}
	who := identity{user: status.User, podName: single(status.User.Extra[extraPodName]), podUID: single(status.User.Extra[extraPodUID])}
	if rest, ok := strings.CutPrefix(status.User.Username, "system:serviceaccount:"); ok {
		who.namespace, who.serviceAccount, _ = strings.Cut(rest, ":")
	}
	return who, nil
}

func wrongAudience(audience string) *transport.Refusal {
	return refuse(transport.LabelTokenAudience, retryLater, "the token was issued for another audience than "+audience)
}

func single(values authenticationv1.ExtraValue) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// peek refuses what a token says against itself, which saves any further look. Nothing is ever accepted for what a token says of itself.
func peek(token, audience string, serverAudiences []string) finding {
	issuer, audiences := unverified(token)
	switch {
	case issuer == legacyIssuer:
		return tokenLegacy
	case len(audiences) == 0 || slices.Contains(audiences, audience):
		return tokenFine
	case intersect(audiences, serverAudiences):
		return tokenOwnAudience
	}
	return tokenAudience
}

// unverified reads two claims of a token; both are empty where it cannot be read.
func unverified(token string) (issuer string, audience []string) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", nil
	}
	var claims struct {
		Issuer   string    `json:"iss"`
		Audience audiences `json:"aud"`
	}
	if err := json.Unmarshal(raw, &claims); err != nil {
		return "", nil
	}
	return claims.Issuer, claims.Audience
}

// audiences is one string or a list of them (RFC 7519).
type audiences []string

func (a *audiences) UnmarshalJSON(raw []byte) error {
	var one string
	if err := json.Unmarshal(raw, &one); err == nil {
		*a = audiences{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(a))
}
