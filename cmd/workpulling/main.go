// Command workpulling runs flows and their worker pools on one machine, without Kubernetes, from the manifests that a cluster would get:
//
//	workpulling run -f FILE|DIR   start the producers and the workers, with their apps as child processes
//	workpulling version           print the version
//	workpulling completion SHELL  print the completions of a shell
//
// Invariants:
//   - Flags become options, and nothing else is decided here.
//   - The exit code says how it went: 0 as it should, 1 it could not, 2 it was called wrongly, 3 dead letters are left, 130 a second signal.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/workpulling/workpulling/internal/standalone"
)

const (
	exitFailed      = 1
	exitUsage       = 2
	exitDeadLetters = 3
	exitSignal      = 130
)

func main() {
	err := command().ExecuteContext(untilSignal())
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "workpulling:", err)
	usage := new(usageError)
	switch {
	case errors.Is(err, standalone.ErrDeadLetters):
		os.Exit(exitDeadLetters)
	case errors.As(err, &usage):
		os.Exit(exitUsage)
	}
	os.Exit(exitFailed)
}

// untilSignal is a context that ends with the first SIGINT or SIGTERM. The second one ends the process; its guard ends the apps.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exitSignal)
	}()
	return ctx
}

// usageError is a wrong call.
type usageError struct{ error }

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "workpulling",
		Short:         "Run flows and worker pools on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	root.AddCommand(runCommand(), versionCommand(), guardCommand())
	return root
}

// guardCommand is what `run` starts beside itself.
func guardCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "guard",
		Short:  "End the apps of a run that was killed",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			return standalone.Guard(cmd.InOrStdin())
		},
	}
}
