package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// No way of printing a state shows its secret.
func TestSecretIsNeverShown(t *testing.T) {
	s, err := NewSecret(strings.NewReader("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(State{Secret: s})
	if err != nil {
		t.Fatal(err)
	}
	shown := []string{string(encoded)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		shown = append(shown, fmt.Sprintf(verb, s), fmt.Sprintf(verb, State{Secret: s}), fmt.Sprintf(verb, &State{Secret: s}))
	}
	for _, text := range shown {
		lower := strings.ToLower(text)
		for _, part := range []string{"0123456789", "30313233", "48 49 50", "48,49,50", "0x30, 0x31"} {
			if strings.Contains(lower, part) {
				t.Errorf("the secret shows in %s", text)
			}
		}
		if !strings.Contains(text, hidden) {
			t.Errorf("nothing stands for the secret in %s", text)
		}
	}
}

func TestSecretNeedsRandomness(t *testing.T) {
	if s, err := NewSecret(strings.NewReader("short")); !errors.Is(err, io.ErrUnexpectedEOF) || s != (Secret{}) {
		t.Errorf("error %v", err)
	}
}
