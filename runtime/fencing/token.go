package fencing

import (
	"errors"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	serviceaccounts "k8s.io/apiserver/pkg/authentication/serviceaccount"
	tokens "k8s.io/apiserver/pkg/authentication/token/jwt"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// legacyIssuer is that of tokens in Secrets, which are bound to no audience and never expire.
const legacyIssuer = "kubernetes/serviceaccount"

// leeway is that of the API server for the same comparisons.
const leeway = jwt.DefaultLeeway

// finding is what the look at a token ended with.
type finding int

const (
	tokenFine        finding = iota
	tokenMalformed           // no signed JWT, or signed in a way that no API server signs
	tokenUnknownKey          // signed with a key that the set has not
	tokenForged              // the signature is not that of the key it names
	tokenLegacy              // from a Secret
	tokenOtherIssuer         // signed by the cluster, in another name than our own token
	tokenOtherObject         // bound to an object that only the API server can look at
	tokenOwnAudience         // for the API server, as every token is that nobody asked anything of
	tokenAudience            // for somebody else
	tokenExpired             // its time is over
	tokenEarly               // its time has not come, which is a clock that is wrong
	tokenNoIdentity          // signed, and it does not say whose it is
)

// expectation is what a token is compared with.
type expectation struct {
	issuer, audience string
	// serverAudiences are those of our own token for the API server.
	serverAudiences []string
	now             time.Time
}

// reference names one object.
type reference struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// privateClaims are those that Kubernetes adds.
type privateClaims struct {
	Kubernetes struct {
		Namespace         string     `json:"namespace"`
		ServiceAccount    reference  `json:"serviceaccount"`
		Pod               *reference `json:"pod"`
		Node              *reference `json:"node"`
		Secret            *reference `json:"secret"`
		ValidatingWebhook *reference `json:"validatingwebhookconfiguration"`
		MutatingWebhook   *reference `json:"mutatingwebhookconfiguration"`
	} `json:"kubernetes.io"`
}

// judgeToken verifies a token with a key set and nothing else. expires is when a token that is fine ends; of one that has expired, when it did.
func judgeToken(token string, set *keySet, expect expectation) (who identity, expires time.Time, found finding) {
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return identity{}, time.Time{}, tokenMalformed
	}
	var public jwt.Claims
	var private privateClaims
	if found := claimsOf(parsed, set, &public, &private); found != tokenFine {
		return identity{}, time.Time{}, found
	}
	if found := judgeClaims(public, private, expect); found != tokenFine {
		if found == tokenExpired {
			return identityOf(public, private), public.Expiry.Time(), found
		}
		return identity{}, time.Time{}, found
	}
	return identityOf(public, private), public.Expiry.Time(), tokenFine
}

// claimsOf checks the signature.
func claimsOf(token *jwt.JSONWebToken, set *keySet, public *jwt.Claims, private *privateClaims) finding {
	header := token.Headers[0]
	keys, known := set.find(header.KeyID, jose.SignatureAlgorithm(header.Algorithm))
	if !known {
		return tokenUnknownKey
	}
	for _, key := range keys {
		err := token.Claims(key.Key, public, private)
		switch {
		case err == nil:
			return tokenFine
		case !errors.Is(err, jose.ErrCryptoFailure) && !errors.Is(err, jose.ErrUnsupportedAlgorithm):
			return tokenNoIdentity // signed, and its claims have other types than Kubernetes gives them
		}
		*public, *private = jwt.Claims{}, privateClaims{}
	}
	return tokenForged
}

// judgeClaims compares what a signed token says with what is expected.
func judgeClaims(public jwt.Claims, private privateClaims, expect expectation) finding {
	switch {
	case public.Issuer == legacyIssuer:
		return tokenLegacy
	case public.Issuer != expect.issuer:
		return tokenOtherIssuer
	case !slices.Contains(public.Audience, expect.audience):
		if intersect(public.Audience, expect.serverAudiences) {
			return tokenOwnAudience
		}
		return tokenAudience
	case public.Expiry == nil:
		return tokenNoIdentity
	}
	k := private.Kubernetes
	if k.Namespace == "" || k.ServiceAccount.Name == "" || k.ServiceAccount.UID == "" ||
		public.Subject != serviceaccounts.MakeUsername(k.Namespace, k.ServiceAccount.Name) {
		return tokenNoIdentity
	}
	if k.Secret != nil || k.ValidatingWebhook != nil || k.MutatingWebhook != nil || k.Pod == nil && k.Node != nil {
		return tokenOtherObject
	}
	switch err := public.ValidateWithLeeway(jwt.Expected{Time: expect.now}, leeway); {
	case errors.Is(err, jwt.ErrExpired):
		return tokenExpired
	case err != nil:
		return tokenEarly
	}
	return tokenFine
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(one string) bool { return slices.Contains(b, one) })
}

// identityOf is what a TokenReview says of the same token: access reviews must not tell the two apart.
func identityOf(public jwt.Claims, private privateClaims) identity {
	k := private.Kubernetes
	account := serviceaccounts.ServiceAccountInfo{
		Namespace: k.Namespace, Name: k.ServiceAccount.Name, UID: k.ServiceAccount.UID, CredentialID: tokens.CredentialIDForJTI(public.ID),
	}
	if k.Pod != nil {
		account.PodName, account.PodUID = k.Pod.Name, k.Pod.UID
	}
	if k.Node != nil {
		account.NodeName, account.NodeUID = k.Node.Name, k.Node.UID
	}
	info := account.UserInfo()
	who := identity{
		user: authenticationv1.UserInfo{
			Username: info.GetName(), UID: info.GetUID(), Groups: append(slices.Clone(info.GetGroups()), user.AllAuthenticated),
			Extra: map[string]authenticationv1.ExtraValue{},
		},
		namespace: k.Namespace, serviceAccount: k.ServiceAccount.Name, podName: account.PodName, podUID: account.PodUID,
	}
	for name, values := range info.GetExtra() {
		who.user.Extra[name] = values
	}
	return who
}
