package flowstats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/runtimeconfig"
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

// TokenIdentity returns a function that reads the bearer token of a call, has the API server review it, and looks the pod up.
func TokenIdentity(c client.Client) func(context.Context) (Producer, error) {
	return func(ctx context.Context) (Producer, error) {
		token, err := bearer(ctx)
		if err != nil {
			return Producer{}, err
		}
		review := &authv1.TokenReview{Spec: authv1.TokenReviewSpec{Token: token, Audiences: []string{runtimeconfig.TokenAudience}}}
		if err := c.Create(ctx, review); err != nil {
			return Producer{}, fmt.Errorf("reviewing the token: %w", err)
		}
		namespace, podName, podUID, err := claims(review.Status)
		if err != nil {
			return Producer{}, err
		}
		var pod corev1.Pod
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: podName}, &pod); err != nil {
			return Producer{}, fmt.Errorf("looking for the pod of the token: %w", err)
		}
		return producerOf(&pod, podUID)
	}
}

func bearer(ctx context.Context) (string, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	values := md.Get("authorization")
	if len(values) != 1 {
		return "", errors.New("the call carries no bearer token")
	}
	token, found := strings.CutPrefix(values[0], "Bearer ")
	if !found || token == "" {
		return "", errors.New("the call carries no bearer token")
	}
	return token, nil
}

// claims reads a review. The audience is checked here again, for an API server that ignores audiences answers with its own.
func claims(status authv1.TokenReviewStatus) (namespace, pod, podUID string, err error) {
	if !status.Authenticated || !slices.Contains(status.Audiences, runtimeconfig.TokenAudience) {
		return "", "", "", fmt.Errorf("the token is not valid for audience %s", runtimeconfig.TokenAudience)
	}
	account := strings.Split(status.User.Username, ":")
	if len(account) != 4 || account[0] != "system" || account[1] != "serviceaccount" {
		return "", "", "", errors.New("the token is not that of a ServiceAccount")
	}
	names, uids := status.User.Extra[extraPodName], status.User.Extra[extraPodUID]
	if len(names) != 1 || len(uids) != 1 {
		return "", "", "", errors.New("the token is not bound to a pod")
	}
	return account[2], names[0], uids[0], nil
}

// producerOf accepts a pod of a flow's StatefulSet with the UID of the token.
func producerOf(pod *corev1.Pod, podUID string) (Producer, error) {
	flow := pod.Labels[v1alpha1.LabelFlow]
	owner := metav1.GetControllerOf(pod)
	switch {
	case string(pod.UID) != podUID:
		return Producer{}, fmt.Errorf("pod %s was replaced since the token was made", pod.Name)
	case pod.Labels[v1alpha1.LabelRole] != v1alpha1.RoleProducer || flow == "":
		return Producer{}, fmt.Errorf("pod %s is no producer", pod.Name)
	case owner == nil || owner.Kind != "StatefulSet" || owner.Name != runtimeconfig.ProducerName(flow):
		return Producer{}, fmt.Errorf("pod %s does not belong to the StatefulSet of flow %s", pod.Name, flow)
	}
	return Producer{Namespace: pod.Namespace, Flow: flow, Pod: pod.Name, PodUID: podUID}, nil
}
