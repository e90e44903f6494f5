package flowstats

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/metadata"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/transport"
)

// An operator that is confined to namespaces looks at no pod of another one, however good its token is.
func TestWithin(t *testing.T) {
	pod := producerPod("thumbnails")
	pod.Spec.ServiceAccountName = "thumbnails-producer"
	good := fencing.PodToken{Namespace: "media", ServiceAccount: "thumbnails-producer", Pod: pod.Name, PodUID: string(pod.UID)}
	elsewhere, another, former := good, good, good
	elsewhere.Namespace, another.ServiceAccount, former.PodUID = "shop", "default", "uid-0"
	for name, c := range map[string]struct {
		who  fencing.PodToken
		want transport.Label
	}{
		"a producer":           {good, ""},
		"another namespace's":  {elsewhere, transport.LabelServiceAccount},
		"of another account":   {another, transport.LabelServiceAccount},
		"of the pod before it": {former, transport.LabelPodUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			pods := fake.NewClientBuilder().WithScheme(clientscheme.Scheme).WithObjects(pod).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
					if key.Namespace != "media" {
						t.Errorf("a look at %s", key)
					}
					return c.Get(ctx, key, obj, o...)
				},
			}).Build()
			identify := TokenIdentity(pods, Within([]string{"media", "print"}, func(context.Context, string) (fencing.PodToken, error) { return c.who, nil }))
			_, err := identify(metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer good")))
			var label transport.Label
			if refusal, ok := errors.AsType[*transport.Refusal](err); ok {
				label = refusal.Label
			}
			if label != c.want || (err == nil) != (c.want == "") {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
