package helm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/yaml"
)

const (
	operator = "workpulling"
	crds     = "workpulling-crds"
)

// release is one rendering of a chart.
type release struct {
	name, namespace string
	values          map[string]any
}

// odd has a name and a namespace that no template can have guessed.
var odd = release{name: "zx-9", namespace: "quite-odd"}

func (r release) with(values map[string]any) release {
	r.values = values
	return r
}

func try(chart string, r release) ([]*unstructured.Unstructured, error) {
	loaded, err := loader.Load(filepath.Join("..", "..", "charts", chart))
	if err != nil {
		return nil, fmt.Errorf("loading the chart: %w", err)
	}
	values, err := chartutil.ToRenderValues(loaded, r.values,
		chartutil.ReleaseOptions{Name: r.name, Namespace: r.namespace, Revision: 1, IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := (engine.Engine{Strict: true}).Render(loaded, values)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(path, ".yaml") {
			continue
		}
		found, err := decode(files[path])
		if err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", path, err, files[path])
		}
		if err := unique(files[path]); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", path, err, files[path])
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

func decode(text string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// unique refuses a key that a mapping has twice; most readers of YAML take the last one in silence.
func unique(text string) error {
	for reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var object map[string]any
		if err := strict.UnmarshalStrict(document, &object); err != nil {
			return err
		}
	}
}

func render(t *testing.T, chart string, r release) []*unstructured.Unstructured {
	t.Helper()
	objects, err := try(chart, r)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func ofKind(objects []*unstructured.Unstructured, kind string) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() == kind {
			found = append(found, object)
		}
	}
	return found
}

// find returns the object of that kind and name, or fails.
func find(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	var names []string
	for _, object := range ofKind(objects, kind) {
		if object.GetName() == name {
			return object
		}
		names = append(names, object.GetName())
	}
	t.Fatalf("no %s %q among %q", kind, name, names)
	return nil
}

// typed converts an object, strictly: a field that the API does not know is an error.
func typed[T any](t *testing.T, object *unstructured.Unstructured) *T {
	t.Helper()
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
		t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return into
}

func readFile(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
