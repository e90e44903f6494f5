package manifest

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Position is a place in a manifest.
type Position struct {
	// File is the path as it was given, or "stdin".
	File string
	// Line counts from 1.
	Line int
	// Dir is the directory of the file; empty for stdin.
	Dir string
}

func (p Position) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// at is the position of another line, counted in the document that begins at p.
func (p Position) at(line int) Position {
	p.Line += max(line, 1) - 1
	return p
}

// lineInError finds the line that a parser names.
var lineInError = regexp.MustCompile(`\bline (\d+)(?:: |\b)`)

// blame puts a parser's error at its line, which the parser counts from the start of the document.
func (p Position) blame(err error) error {
	text := err.Error()
	for _, prefix := range []string{"error converting YAML to JSON: ", "yaml: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	if found := lineInError.FindStringSubmatchIndex(text); found != nil {
		line, _ := strconv.Atoi(text[found[2]:found[3]])
		return fmt.Errorf("%s: %s", p.at(line), strings.TrimSpace(text[:found[0]]+text[found[1]:]))
	}
	return fmt.Errorf("%s: %s", p, text)
}

// pathParts are the names and indices of a field path.
var pathParts = regexp.MustCompile(`[^.\[\]]+`)

// lineOf is the line of the field at path, such as spec.flows[1], or of the deepest part of the path that is there.
func lineOf(root *yaml.Node, path string) int {
	node := root
	if node.Kind == yaml.DocumentNode && len(node.Content) > 0 {
		node = node.Content[0]
	}
	line := node.Line
	for _, part := range pathParts.FindAllString(path, -1) {
		next, at := step(node, part)
		if next == nil {
			break
		}
		node, line = next, at
	}
	return max(line, 1)
}

// step goes to a member of a mapping or sequence, and says where that begins: at its key, if it has one.
func step(node *yaml.Node, part string) (*yaml.Node, int) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == part {
				return node.Content[i+1], node.Content[i].Line
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(part); err == nil && i < len(node.Content) {
			return node.Content[i], node.Content[i].Line
		}
	default: // a scalar has no members; an alias is not followed
	}
	return nil, 0
}
