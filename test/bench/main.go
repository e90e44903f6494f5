package main

import (
	"fmt"
	"os"

	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

func main() {
	if played, err := trial.RunChild(systems()); played {
		exit(err)
		return
	}
	exit(run(os.Args[1:]))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
