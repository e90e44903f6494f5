// Package logtail reads the end of a log, for error messages.
//
// Invariant: it never fails; what cannot be read is said in the text.
package logtail

import (
	"fmt"
	"os"
	"strings"
)

const (
	lines    = 15
	maxBytes = 64 << 10
	maxLine  = 400
)

// Of gives the last lines of the file, indented and cut to a readable length.
func Of(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Sprintf("  (no log: %v)", err)
	}
	defer f.Close()
	size := int64(0)
	if info, err := f.Stat(); err == nil {
		size = info.Size()
	}
	text := make([]byte, min(size, maxBytes))
	n, _ := f.ReadAt(text, size-int64(len(text)))
	all := strings.Split(strings.TrimSpace(string(text[:n])), "\n")
	var out strings.Builder
	for _, line := range all[max(0, len(all)-lines):] {
		if len(line) > maxLine {
			line = line[:maxLine] + "…"
		}
		fmt.Fprintf(&out, "  %s\n", line)
	}
	fmt.Fprintf(&out, "  (whole log: %s)", path)
	return out.String()
}
