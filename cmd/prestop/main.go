// Command prestop waits for the worker's drain and then runs the user's own preStop hook. It is static, because the user's image
// may have no shell and no C library.
//
// Invariants:
//   - A drain that does not end, or cannot be begun, is said and does not fail the hook: the app still gets its own hook and SIGTERM.
//   - It never signals or stops anything by itself.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/sidecar/prestop"
)

func main() {
	timeout := flag.Int("drain-timeout", 30, "seconds to wait for the drain")
	text := flag.String("hook", "", "the user's own preStop hook, a LifecycleHandler in JSON, to run after the drain")
	socket := flag.String("socket", runtimeconfig.DrainSocket, "the sidecar's drain socket")
	flag.Parse()
	if err := prestop.Run(context.Background(), *socket, time.Duration(*timeout)*time.Second, *text, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "prestop:", err)
		os.Exit(1)
	}
}
