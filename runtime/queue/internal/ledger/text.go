package ledger

import (
	"strings"
	"unicode/utf8"

	"github.com/workpulling/workpulling/runtime/protocol"
)

// CutText bounds a text for people to protocol.MaxReasonBytes of valid UTF-8, on a character boundary. The result shares no
// memory with a longer text.
func CutText(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= protocol.MaxReasonBytes {
		return s
	}
	end := protocol.MaxReasonBytes
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.Clone(s[:end])
}
