package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"unicode"
	"unicode/utf8"
)

// errNotText says that a document can never be processed: no retry helps.
var errNotText = errors.New("the document is not UTF-8 text")

// Analysis is the work that a job does on its document.
type Analysis struct {
	Bytes  int    `json:"bytes"`
	Lines  int    `json:"lines"`
	Words  int    `json:"words"`
	SHA256 string `json:"sha256"`
}

// analyse counts and hashes one document.
func analyse(document []byte) (Analysis, error) {
	if !utf8.Valid(document) {
		return Analysis{}, errNotText
	}
	sum := sha256.Sum256(document)
	lines := bytes.Count(document, []byte{'\n'})
	if len(document) > 0 && document[len(document)-1] != '\n' {
		lines++
	}
	return Analysis{
		Bytes:  len(document),
		Lines:  lines,
		Words:  len(bytes.FieldsFunc(document, unicode.IsSpace)),
		SHA256: hex.EncodeToString(sum[:]),
	}, nil
}
