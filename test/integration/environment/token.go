package environment

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RequestToken asks the API server for a token of a ServiceAccount, as kubelet does. A spec without audiences means one for the API server
// itself, one without a bound object a token that outlives every pod.
func RequestToken(ctx context.Context, c client.Client, namespace, serviceAccount string, spec authenticationv1.TokenRequestSpec) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: spec}
	of := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: serviceAccount}}
	if err := c.SubResource("token").Create(ctx, of, request); err != nil {
		return "", fmt.Errorf("requesting a token of %s: %w", serviceAccount, err)
	}
	return request.Status.Token, nil
}
