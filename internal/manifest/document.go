package manifest

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	sigsyaml "sigs.k8s.io/yaml"
)

// document is one YAML or JSON document of a file.
type document struct {
	at   Position // of its first line
	text []byte
}

// split takes a file apart at its document markers. The text of a document keeps the line numbers: it begins in the line of its marker.
func split(at Position, text []byte) []document {
	var documents []document
	current := document{at: at}
	for i, line := range bytes.SplitAfter(text, []byte("\n")) {
		if rest, ok := bytes.CutPrefix(line, []byte("---")); ok && (len(bytes.TrimSpace(rest)) == 0 || strings.ContainsRune(" \t", rune(rest[0]))) {
			documents = append(documents, current)
			current = document{at: at.at(i + 1)}
			line = append([]byte("   "), rest...)
		}
		current.text = append(current.text, line...)
	}
	return append(documents, current)
}

// empty says that there is nothing in the document but white space and comments.
func (d document) empty() bool {
	for line := range bytes.Lines(d.text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// object decodes the document as kubectl does. The node is the same document with its lines; it is empty where those are not known.
func (d document) object() (object map[string]any, node yaml.Node, err error) {
	raw, err := sigsyaml.YAMLToJSONStrict(d.text)
	if err != nil {
		return nil, node, d.at.blame(err)
	}
	if err := utiljson.Unmarshal(raw, &object); err != nil {
		return nil, node, d.at.blame(err)
	}
	if yaml.Unmarshal(d.text, &node) != nil {
		node = yaml.Node{}
	}
	return object, node, nil
}
