package v1alpha1_test

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// validator is the part of the API server that defaults, prunes and validates
// custom resources, without the server.
type validator struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

func newValidator(t *testing.T, file string) *validator {
	t.Helper()
	crd, _ := readCRD(t, file)
	var schema apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &schema, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := structuralschema.NewStructural(&schema)
	if err != nil {
		t.Fatal(err)
	}
	schemaValidator, _, err := validation.NewSchemaValidator(&schema)
	if err != nil {
		t.Fatal(err)
	}
	return &validator{
		structural: structural,
		schema:     schemaValidator,
		rules:      cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}
}

// admit defaults and prunes an object in place and validates it, against old
// where it is an update.
func (v *validator) admit(t *testing.T, object, old map[string]any) error {
	t.Helper()
	defaulting.Default(object, v.structural)
	if pruned := pruning.PruneWithOptions(object, v.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}); len(pruned) > 0 {
		return fmt.Errorf("unknown fields: %v", pruned)
	}
	errs := validation.ValidateCustomResource(nil, object, v.schema)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, v.structural, object)...)
	if len(errs) == 0 {
		var celErrs field.ErrorList
		var previous any
		if old != nil {
			previous = old
		}
		celErrs, _ = v.rules.Validate(t.Context(), nil, v.structural, object, previous, celconfig.RuntimeCELCostBudget)
		errs = append(errs, celErrs...)
	}
	return errors.Join(errs.ToAggregate())
}
