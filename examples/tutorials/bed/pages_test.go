package bed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a tutorial quotes is in the code of some tutorial, word for word.
func TestPagesQuoteTheCode(t *testing.T) {
	sources, err := filepath.Glob("../*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, source := range sources {
		raw, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(raw)
	}
	pages, err := filepath.Glob("../../../docs/tutorials/*.md")
	if err != nil {
		t.Fatal(err)
	}
	quotes := 0
	for _, page := range pages {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks := strings.Split(string(raw), "```go\n")
		for _, block := range blocks[1:] {
			quote, _, _ := strings.Cut(block, "```")
			if !strings.Contains(code.String(), quote) {
				t.Errorf("%s quotes what is not there:\n%s", page, quote)
			}
			quotes++
		}
	}
	if quotes < 4 {
		t.Errorf("%d quotes: the pages are elsewhere", quotes)
	}
}
