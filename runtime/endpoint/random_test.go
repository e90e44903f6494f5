package endpoint_test

import (
	"testing"

	"github.com/workpulling/workpulling/runtime/endpoint"
)

// Sessions, bindings, secrets and boot nonces are what tells an answer from a forgery: 128 bits at least, and never twice.
func TestIDsAreNotGuessable(t *testing.T) {
	seen := map[string]bool{}
	letters := map[rune]int{}
	for range 10_000 {
		id := (endpoint.CryptoRandom{}).ID()
		if len(id) < 26 || seen[id] {
			t.Fatalf("id %q of %d characters, seen before: %t", id, len(id), seen[id])
		}
		seen[id] = true
		for _, r := range id {
			letters[r]++
		}
	}
	// 26 characters of 32 different ones are 130 bits; each of them must be about as likely as any other.
	for r, n := range letters {
		if n < 7_000 || n > 9_300 {
			t.Errorf("%q occurs %d times in %d characters", r, n, 26*10_000)
		}
	}
	if len(letters) != 32 {
		t.Errorf("ids are made of %d different characters", len(letters))
	}
}
