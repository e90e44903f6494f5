// Command app is the workers' app of a run of the chaos runner: it handles jobs and keeps a ledger.
package main

import (
	"fmt"
	"os"

	"github.com/workpulling/workpulling/test/prober"
)

func main() {
	fmt.Fprintln(os.Stderr, prober.RunApp())
	os.Exit(1)
}
