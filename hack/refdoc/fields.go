package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const fieldsIntro = `# API reference: workpulling.dev/v1alpha1

Generated from the CRDs by ` + "`make docs`" + `. ` + "`kubectl explain`" + ` shows the same text. A rule is what the API server
checks beyond type and range.
`

// ofKubernetes are the fields whose type is described by Kubernetes.
var ofKubernetes = map[string]string{
	"template":  "PodTemplateSpec",
	"resources": "ResourceRequirements",
}

// fieldsPage is a page with every field of every CRD in a directory.
func fieldsPage(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return "", fmt.Errorf("listing %s: %w", dir, err)
	}
	var page strings.Builder
	page.WriteString(fieldsIntro)
	// The flow comes before the pool, which names it.
	for _, file := range slices.Backward(slices.Sorted(slices.Values(files))) {
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
			return "", fmt.Errorf("parsing %s: %w", file, err)
		}
		if err := writeKind(&page, &crd); err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
	}
	return page.String(), nil
}

func writeKind(page *strings.Builder, crd *apiextensionsv1.CustomResourceDefinition) error {
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	fmt.Fprintf(page, "\n## %s\n\n%s\n\nShort name `%s`; `kubectl get %s` lists it with its kin.\n",
		crd.Spec.Names.Kind, oneLine(schema.Description), crd.Spec.Names.ShortNames[0], crd.Spec.Names.Categories[0])
	for _, part := range []string{"spec", "status"} {
		fmt.Fprintf(page, "\n### %s.%s\n\n| field | type | default | meaning |\n|---|---|---|---|\n", crd.Spec.Names.Kind, part)
		if err := writeFields(page, part, schema.Properties[part]); err != nil {
			return err
		}
	}
	fmt.Fprintf(page, "\n### Rules of %s\n\n", crd.Spec.Names.Kind)
	writeRules(page, "", *schema)
	return nil
}

func writeFields(page *strings.Builder, path string, schema apiextensionsv1.JSONSchemaProps) error {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field := schema.Properties[name]
		at := path + "." + name
		if field.Description == "" {
			return fmt.Errorf("%s has no description", at)
		}
		required := ""
		if slices.Contains(schema.Required, name) {
			required = "Required. "
		}
		fmt.Fprintf(page, "| `%s` | %s | %s | %s%s |\n", at, cell(typeOf(name, field)), defaultOf(name, field), required, cell(oneLine(field.Description)))
		if _, kubernetes := ofKubernetes[name]; kubernetes || name == "conditions" {
			continue
		}
		if err := writeFields(page, at, field); err != nil {
			return err
		}
	}
	return nil
}

// typeOf is the type of a field with its range or its values.
func typeOf(name string, field apiextensionsv1.JSONSchemaProps) string {
	if kind, ok := ofKubernetes[name]; ok {
		return kind
	}
	switch {
	case name == "conditions":
		return "list of Condition"
	case field.XIntOrString:
		return "number or string"
	case field.Type == "array":
		return "list of " + field.Items.Schema.Type
	case len(field.Enum) > 0:
		values := make([]string, len(field.Enum))
		for i, value := range field.Enum {
			values[i] = strings.Trim(string(value.Raw), `"`)
		}
		return strings.Join(values, " or ")
	case field.Minimum != nil && field.Maximum != nil:
		return fmt.Sprintf("integer, %.0f to %.0f", *field.Minimum, *field.Maximum)
	}
	return field.Type
}

// defaultOf is the default of a field that has no fields of its own; theirs are
// in their own rows.
func defaultOf(name string, field apiextensionsv1.JSONSchemaProps) string {
	_, kubernetes := ofKubernetes[name]
	if field.Default == nil || len(field.Properties) > 0 && !kubernetes {
		return ""
	}
	var value any
	if err := json.Unmarshal(field.Default.Raw, &value); err != nil {
		return ""
	}
	if number, ok := value.(float64); ok {
		return fmt.Sprintf("`%.0f`", number)
	}
	if text, ok := value.(string); ok {
		return "`" + text + "`"
	}
	return "`" + string(field.Default.Raw) + "`"
}

func writeRules(page *strings.Builder, path string, schema apiextensionsv1.JSONSchemaProps) {
	for _, rule := range schema.XValidations {
		where := "The object"
		if path != "" {
			where = "`" + path + "`"
		}
		fmt.Fprintf(page, "- %s: %s\n", where, rule.Message)
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		writeRules(page, strings.TrimPrefix(path+"."+name, "."), schema.Properties[name])
	}
}
