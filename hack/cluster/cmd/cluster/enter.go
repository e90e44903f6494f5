package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/workpulling/workpulling/hack/cluster/internal/local"
)

func newNsenterCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:     "nsenter MEMBER -- COMMAND [ARGUMENT...]",
		Short:   "Run a command inside a node or the control plane",
		Example: "  cluster nsenter node-1 -- ip route\n  cluster nsenter control-plane -- ps ax",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return inside(name, func(c *local.Cluster) (*exec.Cmd, error) { return c.Enter(cmd.Context(), args[0], args[1:]...) })
		},
	}
	nameFlag(cmd, &name)
	return cmd
}

func newCtrCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:     "ctr NODE -- ARGUMENT...",
		Short:   "Run containerd's client on a node, among the containers and images of Kubernetes",
		Example: "  cluster ctr node-1 -- containers ls\n  cluster ctr node-1 -- task kill --signal SIGKILL 3f1c…",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return inside(name, func(c *local.Cluster) (*exec.Cmd, error) { return c.Ctr(cmd.Context(), args[0], args[1:]...) })
		},
	}
	nameFlag(cmd, &name)
	return cmd
}

// inside runs what prepare gives, with our terminal.
func inside(name string, prepare func(*local.Cluster) (*exec.Cmd, error)) error {
	c, err := local.Open(name)
	if err != nil {
		return err
	}
	run, err := prepare(c)
	if err != nil {
		return err
	}
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = run.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exitCode(exit.ExitCode())
	}
	return err
}

// exitCode is the failure of a command that was run for the user.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("the command ended with exit code %d", int(c)) }

func newPartitionCommand() *cobra.Command {
	return linkCommand("partition NODE", "Cut a node off the network; its pods run on",
		func(ctx context.Context, c *local.Cluster, node string) error { return c.Partition(ctx, node) })
}

func newHealCommand() *cobra.Command {
	return linkCommand("heal NODE", "Connect a node again that was cut off",
		func(ctx context.Context, c *local.Cluster, node string) error { return c.Heal(ctx, node) })
}

func linkCommand(use, short string, change func(context.Context, *local.Cluster, string) error) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := local.Open(name)
			if err != nil {
				return err
			}
			return change(cmd.Context(), c, args[0])
		},
	}
	nameFlag(cmd, &name)
	return cmd
}
