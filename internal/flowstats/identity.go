package flowstats

import (
	"context"
	"slices"
	"strings"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
)

// Producer is a pod that has proved to serve a flow.
type Producer struct {
	Namespace, Flow string
	Pod, PodUID     string
}

const (
	extraPodName = "authentication.kubernetes.io/pod-name"
	extraPodUID  = "authentication.kubernetes.io/pod-uid"
)

// Judge says which pod a token is bound to. Its errors are *transport.Refusal.
type Judge func(ctx context.Context, token string) (fencing.PodToken, error)

// TokenIdentity returns a function that reads the bearer token of a call, has it judged, and looks the pod up. Its errors are
// *transport.Refusal.
func TokenIdentity(pods client.Reader, judge Judge) func(context.Context) (Producer, error) {
	return func(ctx context.Context) (Producer, error) {
		token, err := transport.BearerOf(ctx)
		if err != nil {
			return Producer{}, err
		}
		ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
		defer cancel()
		who, err := judge(ctx, token)
		if err != nil {
			return Producer{}, err
		}
		namespace, podName := who.Namespace, who.Pod
		var pod corev1.Pod
		err = pods.Get(ctx, client.ObjectKey{Namespace: namespace, Name: podName}, &pod)
		switch {
		case apierrors.IsNotFound(err):
			return Producer{}, refuse(transport.LabelPodUnknown, "there is no pod "+podName+" in namespace "+namespace)
		case err != nil:
			return Producer{}, undecided("the API server did not answer about the pod of the token: " + err.Error())
		}
		return producerOf(&pod, who)
	}
}

// ByReview has the API server review tokens.
func ByReview(c client.Client) Judge {
	return func(ctx context.Context, token string) (fencing.PodToken, error) {
		review := &authv1.TokenReview{Spec: authv1.TokenReviewSpec{Token: token, Audiences: []string{runtimeconfig.TokenAudience}}}
		if err := c.Create(ctx, review); err != nil {
			return fencing.PodToken{}, undecided("the API server did not review the token: " + err.Error())
		}
		return claims(review.Status)
	}
}

// Within refuses the tokens of other namespaces, whose pods the operator may not look at.
func Within(namespaces []string, judge Judge) Judge {
	return func(ctx context.Context, token string) (fencing.PodToken, error) {
		who, err := judge(ctx, token)
		if err == nil && !slices.Contains(namespaces, who.Namespace) {
			return fencing.PodToken{}, refuse(transport.LabelServiceAccount, "this operator does not watch namespace "+who.Namespace)
		}
		return who, err
	}
}

// reviewTimeout bounds the check of one producer.
const reviewTimeout = 10 * time.Second

func refuse(label transport.Label, reason string) error {
	return &transport.Refusal{Code: protocol.RefusedIdentity, Label: label, Reason: reason}
}

func undecided(reason string) error {
	return &transport.Refusal{Code: protocol.RefusedUnavailable, Label: transport.LabelUnavailable, Reason: reason}
}

// claims reads a review. The audience is checked here again, for an API server that ignores audiences answers with its own.
func claims(status authv1.TokenReviewStatus) (fencing.PodToken, error) {
	switch { // the API server gives its reasons as text only
	case !status.Authenticated && !strings.Contains(status.Error, "audience"):
		return fencing.PodToken{}, refuse(transport.LabelTokenInvalid, "the token is not valid in this cluster")
	case !status.Authenticated || !slices.Contains(status.Audiences, runtimeconfig.TokenAudience):
		return fencing.PodToken{}, refuse(transport.LabelTokenAudience, "the token is not valid for audience "+runtimeconfig.TokenAudience)
	}
	account := strings.Split(status.User.Username, ":")
	if len(account) != 4 || account[0] != "system" || account[1] != "serviceaccount" {
		return fencing.PodToken{}, refuse(transport.LabelServiceAccount, "the token is not that of a ServiceAccount")
	}
	names, uids := status.User.Extra[extraPodName], status.User.Extra[extraPodUID]
	if len(names) != 1 || len(uids) != 1 {
		return fencing.PodToken{}, refuse(transport.LabelTokenUnbound, "the token is not bound to a pod")
	}
	return fencing.PodToken{Namespace: account[2], ServiceAccount: account[3], Pod: names[0], PodUID: uids[0]}, nil
}

// producerOf accepts a pod of a flow's StatefulSet with the UID and the account of the token.
func producerOf(pod *corev1.Pod, who fencing.PodToken) (Producer, error) {
	flow := pod.Labels[v1alpha1.LabelFlow]
	owner := metav1.GetControllerOf(pod)
	switch {
	case string(pod.UID) != who.PodUID:
		return Producer{}, refuse(transport.LabelPodUnknown, "pod "+pod.Name+" was replaced since the token was made")
	case pod.Spec.ServiceAccountName != "" && pod.Spec.ServiceAccountName != who.ServiceAccount:
		return Producer{}, refuse(transport.LabelServiceAccount, "pod "+pod.Name+" does not run as ServiceAccount "+who.ServiceAccount)
	case pod.Labels[v1alpha1.LabelRole] != v1alpha1.RoleProducer || flow == "":
		return Producer{}, refuse(transport.LabelPodForeign, "pod "+pod.Name+" is no producer")
	case owner == nil || owner.Kind != "StatefulSet" || owner.Name != runtimeconfig.ProducerName(flow):
		return Producer{}, refuse(transport.LabelPodForeign, "pod "+pod.Name+" does not belong to the StatefulSet of flow "+flow)
	}
	return Producer{Namespace: pod.Namespace, Flow: flow, Pod: pod.Name, PodUID: who.PodUID}, nil
}
