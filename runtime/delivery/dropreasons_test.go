package delivery

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// B-280: every reason that the machines count is in the documented set.
func TestB280_DropReasonsAreAClosedSet(t *testing.T) {
	used := map[string]bool{}
	for _, file := range sources(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			selector, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || selector.Sel.Name != "drop" && selector.Sel.Name != "malformed" {
				return true
			}
			reason := call.Args[len(call.Args)-1]
			if literal, ok := reason.(*ast.BasicLit); ok {
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				used[text] = true
			} else if _, isCode := reason.(*ast.CallExpr); !isCode && selector.Sel.Name == "drop" && !isParameter(reason) {
				t.Errorf("a drop with a reason that this test cannot read")
			}
			return true
		})
	}
	for reason := range used {
		if DropReasons()[reason] == "" {
			t.Errorf("%q is counted and not documented", reason)
		}
	}
	for _, code := range refusalCodes(t) {
		if refusals[code] == "" {
			t.Errorf("%q is not documented", code)
		}
	}
	if len(refusals) != len(refusalCodes(t)) || len(DropReasons()) < len(dropReasons)+len(refusals)-1 {
		t.Error("a reason is documented that does not exist, or one hides another")
	}
}

// isParameter is the reason that malformed passes on.
func isParameter(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	return ok && name.Name == "reason"
}

func sources(t *testing.T) []*ast.File {
	t.Helper()
	names, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if !strings.HasSuffix(name.Name(), ".go") || strings.HasSuffix(name.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// refusalCodes reads the constants of the protocol from its source.
func refusalCodes(t *testing.T) []protocol.RefusalCode {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../protocol/messages.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []protocol.RefusalCode
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "RefusalCode" {
			text, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			codes = append(codes, protocol.RefusalCode(text))
		}
		return true
	})
	if len(codes) == 0 || slices.Contains(codes, "") {
		t.Fatalf("codes %v", codes)
	}
	return codes
}
