package apicases

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Base names one of the smallest valid objects.
type Base string

// The smallest valid objects.
const (
	Flow Base = `
apiVersion: workpulling.dev/v1alpha1
kind: WorkPullingFlow
metadata: {name: orders}
`
	Pool Base = `
apiVersion: workpulling.dev/v1alpha1
kind: WorkerPool
metadata: {name: packers}
spec:
  flows: [orders]
  template:
    spec:
      containers:
      - {name: app, image: example.test/app}
`
)

// Kind is the kind of the object.
func (b Base) Kind() string {
	if b == Flow {
		return "WorkPullingFlow"
	}
	return "WorkerPool"
}

// With is the object with merge patches, in YAML, applied in order. A null in a
// patch removes a field. It fails only on a malformed patch.
func (b Base) With(patches ...string) (*unstructured.Unstructured, error) {
	doc, err := yaml.YAMLToJSON([]byte(b))
	if err != nil {
		return nil, fmt.Errorf("reading the base object: %w", err)
	}
	for _, patch := range patches {
		if strings.TrimSpace(patch) == "" {
			continue
		}
		raw, err := yaml.YAMLToJSONStrict([]byte(patch))
		if err != nil {
			return nil, fmt.Errorf("reading patch %q: %w", patch, err)
		}
		if doc, err = jsonpatch.MergePatch(doc, raw); err != nil {
			return nil, fmt.Errorf("applying patch %q: %w", patch, err)
		}
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(doc); err != nil {
		return nil, fmt.Errorf("reading the patched object: %w", err)
	}
	return object, nil
}

// set is the merge patch that sets the field at a dotted path.
func set(path string, value any) string {
	for _, step := range slices.Backward(strings.Split(path, ".")) {
		value = map[string]any{step: value}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("a value of the table does not encode: %v", err))
	}
	return string(raw)
}
