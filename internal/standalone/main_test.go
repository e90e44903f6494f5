package standalone

import (
	"os"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/utils/clock"
)

// guardVariable makes this test's program a guard.
const guardVariable = "STANDALONE_TEST_GUARD"

// Whatever a test starts has ended with it.
func TestMain(m *testing.M) {
	if os.Getenv(guardVariable) != "" {
		if err := Guard(os.Stdin); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// testGuard starts a guard.
func testGuard(t *testing.T) *guard {
	t.Helper()
	t.Setenv(guardVariable, "1")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g, err := startGuard([]string{self}, clock.RealClock{}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.close)
	return g
}
