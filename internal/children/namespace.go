package children

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Terminating says whether a namespace is being deleted, to those who may not look at namespaces: one that is takes no new object. The
// question stores nothing; direct is a client without a cache, since nothing is there to be read again.
func Terminating(ctx context.Context, direct client.Client, namespace string) (bool, error) {
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "workpulling-"}}
	err := direct.Create(ctx, probe, client.DryRunAll)
	switch {
	case NamespaceTerminating(err):
		return true, nil
	case err == nil, apierrors.IsForbidden(err), apierrors.IsInvalid(err): // a quota, a policy, or a right that is gone says nothing of it
		return false, nil
	}
	return false, fmt.Errorf("asking whether namespace %s is being deleted: %w", namespace, err)
}
