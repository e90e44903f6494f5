package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var relativeLink = regexp.MustCompile(`\]\(([^):#]+)(#[^)]*)?\)`)

// Every page is found from the index of the docs, and no link of a page leads nowhere.
func TestEveryPageIsInTheIndex(t *testing.T) {
	docs := filepath.Join(root, "docs")
	pages, err := filepath.Glob(filepath.Join(docs, "*", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Glob(filepath.Join(docs, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	index := filepath.Join(docs, "README.md")
	inIndex := map[string]bool{index: true}
	for _, link := range links(t, index) {
		inIndex[link] = true
	}
	pages = append(pages, top...)
	for _, page := range pages {
		if !inIndex[page] {
			t.Errorf("docs/README.md lacks %s", page)
		}
	}
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		for _, link := range links(t, page) {
			if _, err := os.Stat(link); err != nil {
				t.Errorf("%s: a link leads nowhere: %v", page, err)
			}
		}
	}
}

// links are the files that a page links to.
func links(t *testing.T, page string) (files []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range relativeLink.FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(link[1], " ") {
			files = append(files, filepath.Join(filepath.Dir(page), link[1]))
		}
	}
	return files
}
