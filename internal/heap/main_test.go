package heap

import (
	"testing"

	"go.uber.org/goleak"
)

// Whatever a test starts has ended with it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
