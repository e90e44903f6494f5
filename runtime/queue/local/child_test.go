package local_test

import (
	"os"
	"strconv"
	"time"

	"github.com/workpulling/workpulling/runtime/queue/local"
)

const (
	childVariable = "WORKPULLING_LOCAL_QUEUE_CHILD"
	dirVariable   = "WORKPULLING_LOCAL_QUEUE_DIR"
	rowsVariable  = "WORKPULLING_LOCAL_QUEUE_ROWS"
)

// runChild runs this test binary as one of the processes that tests kill or starve.
func runChild() bool {
	role, ok := children[os.Getenv(childVariable)]
	if ok {
		role()
	}
	return ok
}

var children = map[string]func(){}

// childOptions are for the queue of a child: with a number of rows, its layers have so many.
func childOptions() local.Options {
	options := local.Options{Dir: os.Getenv(dirVariable), FlowUID: "uid-1", LockWait: time.Minute}
	if rows, err := strconv.Atoi(os.Getenv(rowsVariable)); err == nil && rows > 0 {
		options = local.Hasty(options, rows)
	}
	return options
}
