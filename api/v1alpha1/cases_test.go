package v1alpha1_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/workpulling/workpulling/internal/admission"
	"github.com/workpulling/workpulling/test/integration/apicases"
)

var fileOfKind = map[string]string{
	"WorkerPool":      "workpulling.dev_workerpools.yaml",
	"WorkPullingFlow": "workpulling.dev_workpullingflows.yaml",
}

func TestCases(t *testing.T) {
	validators := map[string]*admission.Validator{}
	for kind, file := range fileOfKind {
		validators[kind] = newValidator(t, file)
	}
	for _, tc := range apicases.All() {
		t.Run(tc.Name, func(t *testing.T) {
			v := validators[tc.Base.Kind()]
			object, err := tc.Base.With(tc.Object...)
			if err != nil {
				t.Fatal(err)
			}
			admitted := v.Admit(t.Context(), object.Object, nil).ToAggregate()
			if len(tc.Update) > 0 {
				if admitted != nil {
					t.Fatalf("the object was refused before the update: %v", admitted)
				}
				changed, err := tc.Base.With(append(slices.Clone(tc.Object), tc.Update...)...)
				if err != nil {
					t.Fatal(err)
				}
				admitted = v.Admit(t.Context(), changed.Object, object.Object).ToAggregate()
			}
			switch {
			case tc.Refused == "" && admitted != nil:
				t.Errorf("refused: %v", admitted)
			case tc.Refused != "" && admitted == nil:
				t.Errorf("accepted, want it refused with %q", tc.Refused)
			case tc.Refused != "" && !strings.Contains(admitted.Error(), tc.Refused):
				t.Errorf("refused with\n  %v\nwant\n  %s", admitted, tc.Refused)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	for base, want := range map[apicases.Base]string{
		apicases.Flow: apicases.DefaultedFlow,
		apicases.Pool: apicases.DefaultedPool,
	} {
		t.Run(base.Kind(), func(t *testing.T) {
			object, err := base.With()
			if err != nil {
				t.Fatal(err)
			}
			if err := newValidator(t, fileOfKind[base.Kind()]).Admit(t.Context(), object.Object, nil).ToAggregate(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parse(t, want), normalise(t, object.Object["spec"])); diff != "" {
				t.Errorf("defaulted spec (-want +got):\n%s", diff)
			}
		})
	}
}

// Every rule has a case that it refuses.
func TestEveryRuleHasACase(t *testing.T) {
	for kind, file := range fileOfKind {
		crd, _ := readCRD(t, file)
		for _, rule := range rulesBelow(*crd.Spec.Versions[0].Schema.OpenAPIV3Schema) {
			covered := slices.ContainsFunc(apicases.All(), func(c apicases.Case) bool {
				return c.Base.Kind() == kind && c.Refused != "" && strings.Contains(rule.Message, c.Refused)
			})
			if !covered {
				t.Errorf("%s: no case is refused by the rule %q", kind, rule.Message)
			}
		}
	}
}

func rulesBelow(schema apiextensionsv1.JSONSchemaProps) apiextensionsv1.ValidationRules {
	rules := slices.Clone(schema.XValidations)
	for _, property := range schema.Properties {
		rules = append(rules, rulesBelow(property)...)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		rules = append(rules, rulesBelow(*schema.Items.Schema)...)
	}
	return rules
}

// Every integer of our own in a spec has a range, and every range is tried at
// both bounds.
func TestEveryRangeHasACase(t *testing.T) {
	for kind, file := range fileOfKind {
		crd, _ := readCRD(t, file)
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		for path, schema := range integersBelow("spec", spec) {
			i := slices.IndexFunc(apicases.Ranges, func(r apicases.Range) bool {
				return r.Base.Kind() == kind && r.Path == path
			})
			switch {
			case i < 0:
				t.Errorf("%s: %s is in no range", kind, path)
			case schema.Minimum == nil || schema.Maximum == nil:
				t.Errorf("%s: %s has no bounds", kind, path)
			case int64(*schema.Minimum) != apicases.Ranges[i].Min || int64(*schema.Maximum) != apicases.Ranges[i].Max:
				t.Errorf("%s: %s has the bounds %v and %v, the range says %d and %d", kind, path,
					*schema.Minimum, *schema.Maximum, apicases.Ranges[i].Min, apicases.Ranges[i].Max)
			}
		}
	}
}

func integersBelow(path string, schema apiextensionsv1.JSONSchemaProps) map[string]apiextensionsv1.JSONSchemaProps {
	found := map[string]apiextensionsv1.JSONSchemaProps{}
	for name, property := range schema.Properties {
		if name == "template" || name == "resources" {
			continue
		}
		at := path + "." + name
		if property.Type == "integer" {
			found[at] = property
		}
		maps.Copy(found, integersBelow(at, property))
	}
	return found
}

func parse(t *testing.T, text string) (value any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// normalise gives numbers the type that parse gives them.
func normalise(t *testing.T, value any) any {
	t.Helper()
	raw, err := yaml.Marshal(runtime.DeepCopyJSONValue(value))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(raw))
}
