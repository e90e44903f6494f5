package builders_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/workpulling/workpulling/test/builders"
	"github.com/workpulling/workpulling/test/integration/apicases"
)

func TestBuildersStartWithTheDefaultsOfTheAPI(t *testing.T) {
	requireSpec(t, builders.MakeFlow("orders", "shop").Obj().Spec, apicases.DefaultedFlow)
	requireSpec(t, builders.MakePool("packers", "shop", "orders").Obj().Spec, apicases.DefaultedPool)
}

func requireSpec[Spec any](t *testing.T, got Spec, wantYAML string) {
	t.Helper()
	var want Spec
	if err := yaml.UnmarshalStrict([]byte(wantYAML), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestObjIsACopy(t *testing.T) {
	builder := builders.MakePool("packers", "shop", "orders")
	first := builder.Obj()
	second := builder.Image("example.test/other").Obj()
	if got := first.Spec.Template.Spec.Containers[0].Image; got != "example.test/app" {
		t.Errorf("the first object changed with the builder: image %s", got)
	}
	if got := second.Spec.Template.Spec.Containers[0].Image; got != "example.test/other" {
		t.Errorf("the second object has the image %s", got)
	}
}
