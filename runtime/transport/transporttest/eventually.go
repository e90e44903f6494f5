package transporttest

import (
	"testing"
	"time"
)

// Patience is how long a condition may take; it is long because machines that run tests are slow.
const Patience = time.Minute

// Eventually polls a condition until it holds; what names it.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", Patience, what)
		}
		<-ticker.C
	}
}
