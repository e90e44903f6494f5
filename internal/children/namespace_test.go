package children

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestTerminating(t *testing.T) {
	forbidden := func(causes ...metav1.StatusCause) error {
		err := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", errors.New("no"))
		err.ErrStatus.Details.Causes = causes
		return err
	}
	for name, c := range map[string]struct {
		answer  error
		want    bool
		wantErr bool
	}{
		"it takes objects":   {nil, false, false},
		"it is deleted":      {forbidden(metav1.StatusCause{Type: corev1.NamespaceTerminatingCause}), true, false},
		"a quota, or a role": {forbidden(), false, false},
		"an outage":          {apierrors.NewServiceUnavailable("later"), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			stores := false
			direct := fake.NewClientBuilder().WithScheme(clientscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.CreateOption) error {
					applied := (&client.CreateOptions{}).ApplyOptions(options)
					stores = len(applied.DryRun) == 0
					return c.answer
				},
			}).Build()
			got, err := Terminating(t.Context(), direct, "shop")
			if got != c.want || (err != nil) != c.wantErr || stores {
				t.Errorf("%v, %v, stored %v; want %v", got, err, stores, c.want)
			}
		})
	}
}
