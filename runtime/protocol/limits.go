package protocol

import (
	"errors"
	"fmt"
	"math"
	"unicode"
	"unicode/utf8"
)

// Limits of the protocol. None of them can be raised by a peer.
const (
	// MaxIDBytes bounds MessageID, nonces, session and binding ids and secrets; exactly 256 is accepted (B-013).
	MaxIDBytes = 256
	// MaxHeaders and MaxHeaderBytes bound the headers of one job: their number, and all keys and values together.
	MaxHeaders     = 64
	MaxHeaderBytes = 16 << 10
	// MaxPayloadBytes is the most that a flow may allow for one payload; the flow's own limit is usually lower.
	MaxPayloadBytes = 8 << 20
	// MaxFlowControlWindow is the largest demand window (G-101, G-180).
	MaxFlowControlWindow = 10_000
	// MaxReasonBytes bounds the free text of a settlement or refusal; longer text is cut.
	MaxReasonBytes = 1024
	// MaxSequence is the last sequence number that is ever issued, for store and worker sequences (G-045).
	MaxSequence = math.MaxInt64 - 1
)

// ErrInvalid marks every error of this package's validation: the sender is wrong and a retry cannot help.
var ErrInvalid = errors.New("invalid message")

// CheckID returns an error wrapping ErrInvalid unless id is 1…MaxIDBytes bytes of UTF-8 without control characters.
func CheckID(what, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: %s is empty", ErrInvalid, what)
	case len(id) > MaxIDBytes:
		return fmt.Errorf("%w: %s has %d bytes, the limit is %d", ErrInvalid, what, len(id), MaxIDBytes)
	case printable(id, '!'): // and so not blank
		return nil
	case !utf8.ValidString(id):
		return fmt.Errorf("%w: %s is not valid UTF-8", ErrInvalid, what)
	}
	blank := true
	for _, r := range id {
		if unicode.IsControl(r) {
			return fmt.Errorf("%w: %s has a control character", ErrInvalid, what)
		}
		blank = blank && unicode.IsSpace(r)
	}
	if blank {
		return fmt.Errorf("%w: %s is blank", ErrInvalid, what)
	}
	return nil
}

// printable tells whether a text is of ASCII alone, none of it a control character or before first: as most texts are.
func printable(text string, first byte) bool {
	for i := range len(text) {
		if c := text[i]; c < first || c >= 0x7f {
			return false
		}
	}
	return true
}
