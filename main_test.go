package workpulling_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Whatever a test starts has ended with it. The test binary is also the worker process of the tests with several processes.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		os.Exit(childWorker(dir))
	}
	goleak.VerifyTestMain(m)
}
