package logtail

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	text.WriteString(strings.Repeat("x", 2*maxLine) + "\n")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	got := Of(path)
	for _, want := range []string{"  line 9999\n", "x…\n", path} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n != lines {
		t.Errorf("%d lines", n)
	}
	if got := Of(filepath.Join(t.TempDir(), "absent")); !strings.Contains(got, "no log") {
		t.Errorf("of no file: %q", got)
	}
}
