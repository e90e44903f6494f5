package trial

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test's program is also the child of its trials.
func TestMain(m *testing.M) {
	if played, err := RunChild(fakes()); played {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
