package queue

import (
	"fmt"
	"io"
)

// Secret is a key of 256 bits. It formats as a fixed word, whatever the verb, so that no log or error shows it.
type Secret [32]byte

// NewSecret takes a secret from a source of randomness, which in earnest is that of crypto/rand.
func NewSecret(random io.Reader) (Secret, error) {
	var s Secret
	if _, err := io.ReadFull(random, s[:]); err != nil {
		return Secret{}, fmt.Errorf("making a secret: %w", err)
	}
	return s, nil
}

const hidden = "[secret]"

// Format implements fmt.Formatter.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText implements encoding.TextMarshaler, for loggers that encode values as JSON. There is no way back.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }
