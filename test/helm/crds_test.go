package helm

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// maxCRDBytes keeps a CRD under what client-side apply can hold in its annotation.
const maxCRDBytes = 200 << 10

func TestCRDsAreTheGeneratedOnes(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("..", "..", "config", "crd", "bases", "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no generated CRDs: %v", err)
	}
	rendered := render(t, crds, odd)
	if len(rendered) != len(paths) {
		t.Errorf("the chart has %d objects, want %d", len(rendered), len(paths))
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > maxCRDBytes {
			t.Errorf("%s has %d bytes, the limit is %d", path, len(text), maxCRDBytes)
		}
		generated, err := decode(string(text))
		if err != nil {
			t.Fatal(err)
		}
		want := generated[0] // large limits included: a chart that parses its files would make floats of them
		got := find(t, rendered, "CustomResourceDefinition", want.GetName())
		if !cmp.Equal(want.Object["spec"], got.Object["spec"]) {
			t.Errorf("%s is not the generated one; run hack/charts.sh", want.GetName())
		}
		annotations := maps.Clone(got.GetAnnotations())
		if annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s would go with the release", want.GetName())
		}
		delete(annotations, "helm.sh/resource-policy")
		if diff := cmp.Diff(want.GetAnnotations(), annotations); diff != "" {
			t.Errorf("annotations of %s (-generated +chart):\n%s", want.GetName(), diff)
		}
	}
}

func TestCRDsMayGo(t *testing.T) {
	for _, object := range render(t, crds, odd.with(map[string]any{"keep": false})) {
		if policy, kept := object.GetAnnotations()["helm.sh/resource-policy"]; kept {
			t.Errorf("%s has resource-policy %q", object.GetName(), policy)
		}
	}
}
