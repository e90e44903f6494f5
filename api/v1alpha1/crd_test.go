package v1alpha1_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"sigs.k8s.io/yaml"

	"github.com/workpulling/workpulling/api/v1alpha1"
)

// maxCRDBytes keeps a CRD applicable by a client-side `kubectl apply`, which
// copies it into an annotation of at most 256 KiB.
const maxCRDBytes = 200 << 10

var crdFiles = []string{"workpulling.dev_workerpools.yaml", "workpulling.dev_workpullingflows.yaml"}

func readCRD(t *testing.T, file string) (crd apiextensionsv1.CustomResourceDefinition, size int) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "bases", file))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
		t.Fatalf("parsing %s: %v", file, err)
	}
	return crd, len(raw)
}

// The API server's own validation compiles every CEL rule, estimates its cost,
// and checks each default against the schema.
func TestCRDsAreValid(t *testing.T) {
	for _, file := range crdFiles {
		t.Run(file, func(t *testing.T) {
			crd, _ := readCRD(t, file)
			apiextensionsv1.SetDefaults_CustomResourceDefinition(&crd)
			apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
			var internal apiextensions.CustomResourceDefinition
			if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&crd, &internal, nil); err != nil {
				t.Fatal(err)
			}
			internal.Status.StoredVersions = []string{v1alpha1.GroupVersion.Version}
			for _, err := range validation.ValidateCustomResourceDefinition(t.Context(), &internal) {
				t.Error(err)
			}
		})
	}
}

func TestCRDsAreSmall(t *testing.T) {
	for _, file := range crdFiles {
		if _, size := readCRD(t, file); size > maxCRDBytes {
			t.Errorf("%s has %d bytes, more than %d", file, size, maxCRDBytes)
		}
	}
}

func TestCRDsShareACategory(t *testing.T) {
	for _, file := range crdFiles {
		if crd, _ := readCRD(t, file); !slices.Contains(crd.Spec.Names.Categories, "workpulling") {
			t.Errorf("%s is not in the category workpulling: %v", file, crd.Spec.Names.Categories)
		}
	}
}

// `kubectl explain` has a text for every field of ours. Fields inside embedded
// core types are described by the core types' own documentation.
func TestEveryFieldIsDescribed(t *testing.T) {
	for _, file := range crdFiles {
		crd, _ := readCRD(t, file)
		root := *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		requireDescriptions(t, crd.Spec.Names.Kind, root)
	}
}

func requireDescriptions(t *testing.T, path string, schema apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	for name, field := range schema.Properties {
		at := path + "." + name
		if field.Description == "" && name != "metadata" {
			t.Errorf("%s has no description", at)
		}
		if name != "template" && name != "resources" {
			requireDescriptions(t, at, field)
		}
		if field.Items != nil && field.Items.Schema != nil && name != "template" {
			requireDescriptions(t, at+"[]", *field.Items.Schema)
		}
	}
}
