package flow

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/test/builders"
)

// A cache that lags behind the release of a flow must not bring its children back.
func TestReadOfAReleasedFlow(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	holding := func(flows ...client.Object) client.Client {
		return fake.NewClientBuilder().WithScheme(scheme).WithObjects(flows...).Build()
	}
	living := builders.MakeFlow("orders", "shop").UID("a").Obj()
	going := builders.MakeFlow("orders", "shop").UID("a").DeletedAt(now).Finalizers(v1alpha1.FinalizerFlow).Obj()
	again := builders.MakeFlow("orders", "shop").UID("b").Obj()
	for name, tc := range map[string]struct {
		cache, live client.Client
		want        string
	}{
		"living":                {holding(living), holding(), "a"},
		"gone":                  {holding(), holding(), ""},
		"being deleted":         {holding(going), holding(going), "a"},
		"released":              {holding(going), holding(), ""},
		"released, made afresh": {holding(going), holding(again), "b"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{Client: tc.cache, Live: tc.live}
			flow, err := r.read(t.Context(), client.ObjectKeyFromObject(living))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if flow != nil {
				got = string(flow.UID)
			}
			if got != tc.want {
				t.Errorf("read flow %q, want %q", got, tc.want)
			}
		})
	}
}
