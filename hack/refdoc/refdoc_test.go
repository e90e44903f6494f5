package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

func TestReferenceIsUpToDate(t *testing.T) {
	pages, err := render(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pages {
		committed, err := os.ReadFile(filepath.Join(root, "docs", "reference", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(committed)); diff != "" {
			t.Errorf("docs/reference/%s is out of date, run `make docs` (-want +committed):\n%s", name, diff)
		}
	}
}

// A reason that the code makes is in the table: it is a constant of the API
// package, and all of those are.
func TestEveryReasonIsInTheTable(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "conditions.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := constants(filepath.Join(root, "api", "v1alpha1", "conditions.go"))
	if err != nil {
		t.Fatal(err)
	}
	inTable := map[string]bool{}
	for _, b := range blocks {
		for _, r := range b.rows {
			if !strings.Contains(string(page), "| `"+r.value+"` |") {
				t.Errorf("%s is not in docs/reference/conditions.md", r.value)
			}
			inTable[r.value] = true
		}
	}
	for _, dir := range []string{"controllers", "internal", "cmd"} {
		for _, reason := range reasonLiterals(t, filepath.Join(root, dir)) {
			if !inTable[reason.value] {
				t.Errorf("%s: the reason %q is not a constant of api/v1alpha1/conditions.go", reason.at, reason.value)
			}
		}
	}
}

// The reader of a page knows the words of the API, not the names that Go code has for them.
func TestNoMeaningNamesAConstant(t *testing.T) {
	goName := regexp.MustCompile(`\b(Condition|Reason|Label|Annotation|Role|Finalizer)[A-Z][a-z]+\w*`)
	for _, file := range []string{"conditions.go", "labels.go"} {
		blocks, err := constants(filepath.Join(root, "api", "v1alpha1", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			for _, text := range append([]string{b.title}, texts(b.rows)...) {
				if name := goName.FindString(text); name != "" || strings.HasPrefix(text, "Are ") {
					t.Errorf("%s: %q names %q or is no sentence", file, text, name)
				}
			}
		}
	}
}

func texts(rows []row) (texts []string) {
	for _, r := range rows {
		texts = append(texts, r.text)
	}
	return texts
}

type reasonLiteral struct{ at, value string }

// reasonLiterals finds reasons written as text: the value of a field called
// Reason, or a constant whose name starts with Reason.
func reasonLiterals(t *testing.T, dir string) (found []reasonLiteral) {
	t.Helper()
	files := token.NewFileSet()
	add := func(name string, value ast.Expr) {
		literal, ok := value.(*ast.BasicLit)
		if ok && literal.Kind == token.STRING && strings.HasPrefix(name, "Reason") {
			found = append(found, reasonLiteral{at: files.Position(literal.Pos()).String(), value: strings.Trim(literal.Value, `"`)})
		}
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok {
					add(key.Name, n.Value)
				}
			case *ast.ValueSpec:
				for i, value := range n.Values {
					add(n.Names[i].Name, value)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestReasonLiteralsAreFound(t *testing.T) {
	dir := t.TempDir()
	source := "package p\n\nconst ReasonOfOurOwn = \"OfOurOwn\"\n\nvar x = struct{ Reason string }{Reason: \"Inline\"}\n"
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, found := range reasonLiterals(t, dir) {
		got = append(got, found.value)
	}
	if diff := cmp.Diff([]string{"OfOurOwn", "Inline"}, got); diff != "" {
		t.Errorf("literals (-want +got):\n%s", diff)
	}
}
