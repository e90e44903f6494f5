package main

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// source is what the test files of one directory declare.
type source struct {
	functions map[string]string // test function → why it does not run from here: a build tag, "own module", or ""
	specs     map[string]string // Ginkgo spec, its containers joined by slashes → the same
}

const ownModule = "own module"

// readSource reads the test files of a directory.
func readSource(root, dir string) (source, error) {
	s := source{functions: map[string]string{}, specs: map[string]string{}}
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		return s, err
	}
	elsewhere := ""
	for up := dir; up != "."; up = filepath.Dir(up) {
		if _, err := os.Stat(filepath.Join(root, up, "go.mod")); err == nil {
			elsewhere = ownModule
		}
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return s, err
		}
		where := elsewhere
		if tag := buildTag(file); tag != "" && where == "" {
			where = tag
		}
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && isTest(f.Name.Name) {
				s.functions[f.Name.Name] = where
			}
		}
		findSpecs(file, func(path string) { s.specs[path] = where })
	}
	return s, nil
}

func isTest(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz")
}

// buildTag is the tag without which a file is left out.
func buildTag(file *ast.File) string {
	for _, group := range file.Comments {
		for _, comment := range group.List {
			expression, err := constraint.Parse(comment.Text)
			if err != nil {
				continue
			}
			needed := ""
			expression.Eval(func(tag string) bool {
				given := tag == "linux" || tag == "unix"
				if !given {
					needed = tag
				}
				return given
			})
			return needed
		}
	}
	return ""
}

// findSpecs visits the specs of a file by the names of their containers.
func findSpecs(file *ast.File, visit func(path string)) {
	var walk func(node ast.Node, path []string)
	walk = func(node ast.Node, path []string) {
		ast.Inspect(node, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || n == node {
				return true
			}
			function, ok := call.Fun.(*ast.Ident)
			if !ok || len(call.Args) == 0 {
				return true
			}
			name, ok := text(call.Args[0])
			if !ok {
				return true
			}
			switch function.Name {
			case "Describe", "Context", "When", "DescribeTable":
				walk(call, append(slices.Clone(path), name))
				return false
			case "It", "Specify", "Entry":
				visit(strings.Join(append(slices.Clone(path), name), "/"))
				return false
			}
			return true
		})
	}
	walk(file, nil)
}

func text(e ast.Expr) (string, bool) {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(literal.Value)
	return value, err == nil
}

// sources reads each directory once.
type sources struct {
	root string
	read map[string]source
}

// locate says where a test runs: "" for here, otherwise a build tag or ownModule. An error says that there is no such test.
func (s *sources) locate(r reference) (string, error) {
	found, ok := s.read[r.dir]
	if !ok {
		var err error
		if found, err = readSource(s.root, r.dir); err != nil {
			return "", err
		}
		s.read[r.dir] = found
	}
	if isTest(r.name) {
		if functions := found.matching(r.name); len(functions) > 0 {
			return found.functions[functions[0]], nil
		}
		return "", fmt.Errorf("%s has no %s", r.dir, r.name)
	}
	pattern := glob(r.name)
	for path, where := range found.specs {
		if pattern.MatchString(path) {
			return where, nil
		}
	}
	return "", fmt.Errorf("%s has no spec %q", r.dir, r.name)
}

// matching are the test functions that a name means, which may hold a * of its own.
func (s source) matching(name string) (functions []string) {
	top, _, _ := strings.Cut(name, "/")
	pattern := glob(top)
	for function := range s.functions {
		if pattern.MatchString(function) {
			functions = append(functions, function)
		}
	}
	return functions
}

// glob compiles a pattern in which * stands for any text.
func glob(pattern string) *regexp.Regexp {
	parts := strings.Split(pattern, "*")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
}
