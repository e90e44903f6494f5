package admission

import (
	"context"
	"errors"
	"fmt"

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
	"sigs.k8s.io/yaml"
)

// Validator defaults and validates the objects of one kind.
type Validator struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

// New makes the Validator of the first version in a CustomResourceDefinition, given as YAML.
func New(definition []byte) (*Validator, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(definition, &crd); err != nil {
		return nil, fmt.Errorf("parsing a CustomResourceDefinition: %w", err)
	}
	if len(crd.Spec.Versions) == 0 || crd.Spec.Versions[0].Schema == nil {
		return nil, errors.New("a CustomResourceDefinition without a schema")
	}
	var schema apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &schema, nil); err != nil {
		return nil, fmt.Errorf("converting the schema of %s: %w", crd.Name, err)
	}
	structural, err := structuralschema.NewStructural(&schema)
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", crd.Name, err)
	}
	schemaValidator, _, err := validation.NewSchemaValidator(&schema)
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", crd.Name, err)
	}
	return &Validator{
		structural: structural,
		schema:     schemaValidator,
		rules:      cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

// Admit sets the defaults of object in place and validates it, against old where it is an update of that (nil where it is new).
func (v *Validator) Admit(ctx context.Context, object, old map[string]any) field.ErrorList {
	defaulting.Default(object, v.structural)
	var errs field.ErrorList
	unknown := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, path := range pruning.PruneWithOptions(object, v.structural, true, unknown) {
		errs = append(errs, &field.Error{Type: field.ErrorTypeForbidden, Field: path, Detail: "unknown field"})
	}
	if len(errs) > 0 {
		return errs
	}
	errs = validation.ValidateCustomResource(nil, object, v.schema)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, v.structural, object)...)
	if len(errs) > 0 {
		return errs
	}
	var previous any
	if old != nil {
		previous = old
	}
	errs, _ = v.rules.Validate(ctx, nil, v.structural, object, previous, celconfig.RuntimeCELCostBudget)
	return errs
}
