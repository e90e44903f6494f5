package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"strings"
)

const (
	conditionsIntro = `# Conditions and reasons

Generated from api/v1alpha1/conditions.go by ` + "`make docs`" + `.

Every condition is a metav1.Condition with the generation it is about. Its reason is one of the words below; its
message says what was seen and what to do.
`
	labelsIntro = `# Labels, annotations, finalizers and limits

Generated from api/v1alpha1/labels.go by ` + "`make docs`" + `.
`
)

// block is one const declaration of a file.
type block struct {
	title string
	rows  []row
}

// row is one constant: its value and its comment without the name.
type row struct{ value, text string }

// constantsPage is a page with a table for each const declaration of a file.
func constantsPage(path, intro string) (string, error) {
	blocks, err := constants(path)
	if err != nil {
		return "", err
	}
	var page strings.Builder
	page.WriteString(intro)
	for _, b := range blocks {
		fmt.Fprintf(&page, "\n## %s\n\n| value | meaning |\n|---|---|\n", b.title)
		for _, r := range b.rows {
			fmt.Fprintf(&page, "| `%s` | %s |\n", r.value, cell(r.text))
		}
	}
	return page.String(), nil
}

func constants(path string) ([]block, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", path, err)
	}
	var blocks []block
	for _, declaration := range file.Decls {
		consts, ok := declaration.(*ast.GenDecl)
		if !ok || consts.Tok != token.CONST {
			continue
		}
		b := block{title: title(consts)}
		for _, spec := range consts.Specs {
			r, err := constantRow(consts, spec.(*ast.ValueSpec))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			b.rows = append(b.rows, r)
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

// title is the first sentence of a declaration's comment; a declaration without
// one holds the limits.
func title(declaration *ast.GenDecl) string {
	first, _, _ := strings.Cut(oneLine(declaration.Doc.Text()), ".")
	if first == "" {
		return "Limits"
	}
	return first
}

func constantRow(declaration *ast.GenDecl, spec *ast.ValueSpec) (row, error) {
	name := spec.Names[0].Name
	text := oneLine(spec.Doc.Text())
	if text == "" {
		return row{}, fmt.Errorf("%s has no comment", name)
	}
	literal, ok := spec.Values[0].(*ast.BasicLit)
	if !ok {
		return row{}, fmt.Errorf("%s is not a literal", name)
	}
	value := literal.Value
	if literal.Kind == token.STRING {
		value = constant.StringVal(constant.MakeFromLiteral(literal.Value, literal.Kind, 0))
	}
	if declaration.Doc == nil {
		value = name + " = " + value // a limit says nothing without its name
	}
	return row{value: value, text: withoutName(text, name)}, nil
}

// withoutName turns "ReasonX: the pod is late." and "LabelX is the pod." into a
// sentence that stands beside the value.
func withoutName(text, name string) string {
	rest := strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(text, name), ":"))
	if condition, ok := strings.CutPrefix(rest, "is True "); ok {
		return "True " + condition
	}
	rest = strings.TrimPrefix(rest, "is ")
	if first, _, _ := strings.Cut(rest, " "); strings.Contains(first, ".") {
		return rest // the path of a field keeps its case
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// cell makes a text safe inside a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
