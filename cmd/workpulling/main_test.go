package main

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test's program is also the program under test, and the app of its workers: which of them, these variables say.
const (
	asWorkpulling = "WORKPULLING_TEST_AS_PROGRAM"
	asApp         = "WORKPULLING_TEST_AS_APP"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asApp) != "": // first, because apps inherit the other one
		fmt.Fprintln(os.Stderr, app())
		os.Exit(1)
	case os.Getenv(asWorkpulling) != "":
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
