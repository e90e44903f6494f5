// Command cluster builds and runs a real Kubernetes on this machine: see "cluster --help" and the module's README.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/workpulling/workpulling/hack/cluster/internal/kubebinary"
	"github.com/workpulling/workpulling/hack/cluster/internal/progress"
)

// systemDirs hold iptables, ip and others, and are missing from the PATH of some root shells.
const systemDirs = ":/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"

func main() {
	os.Setenv("PATH", os.Getenv("PATH")+systemDirs)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newRootCommand().ExecuteContext(ctx)
	if err == nil {
		return
	}
	if code := exitCode(0); errors.As(err, &code) {
		os.Exit(int(code)) // of a command that ran for the user inside a node and has said what there is to say
	}
	fmt.Fprintln(os.Stderr, "cluster:", err)
	os.Exit(1)
}

// settings are what every command may need.
type settings struct {
	source string
	quiet  bool
}

// printer tells about progress on stderr; stdout is for results.
func (s *settings) printer() *progress.Printer {
	if s.quiet {
		return progress.New(nil, nil)
	}
	return progress.New(os.Stderr, nil)
}

// binary finds the Kubernetes program, and builds it if there is none.
func (s *settings) binary(ctx context.Context, say *progress.Printer) (kubebinary.Binary, error) {
	source := s.source
	if source == "" {
		here, err := os.Getwd()
		if err != nil {
			return kubebinary.Binary{}, fmt.Errorf("finding the sources: %w", err)
		}
		if source, err = kubebinary.FindSource(here); err != nil {
			return kubebinary.Binary{}, err
		}
	}
	return kubebinary.Ensure(ctx, source, say)
}

func newRootCommand() *cobra.Command {
	s := &settings{}
	root := &cobra.Command{
		Use:   "cluster",
		Short: "Build and run a real Kubernetes on this machine",
		Long: `Build and run a real Kubernetes on this machine, from source, without a container registry.

Results go to stdout, progress to stderr.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.PersistentFlags().StringVar(&s.source, "source", "", "directory of the hack/cluster module (default: searched upwards from here)")
	root.PersistentFlags().BoolVarP(&s.quiet, "quiet", "q", false, "say nothing about progress")
	root.AddCommand(
		newBuildCommand(s), newAssetsCommand(s), newControlPlaneCommand(s),
		newUpCommand(s), newDownCommand(s), newStatusCommand(), newKubeconfigCommand(), newLoadImageCommand(s),
		newPartitionCommand(), newHealCommand(), newStopCommand(s), newStartCommand(s), newSnapshotCommand(s), newSigningKeyCommand(s),
		newNsenterCommand(), newCtrCommand(), newMemberCommand(),
	)
	return root
}
