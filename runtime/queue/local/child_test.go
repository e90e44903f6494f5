package local_test

import "os"

const childVariable = "WORKPULLING_LOCAL_QUEUE_CHILD"

// runChild runs this test binary as one of the processes that tests kill or starve.
func runChild() bool {
	role, ok := children[os.Getenv(childVariable)]
	if ok {
		role()
	}
	return ok
}

var children = map[string]func(){}
