package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	"github.com/spf13/cobra"

	"github.com/workpulling/workpulling/hack/cluster/internal/kubebinary"
	"github.com/workpulling/workpulling/hack/cluster/internal/local"
	"github.com/workpulling/workpulling/hack/cluster/internal/progress"
)

func newUpCommand(s *settings) *cobra.Command {
	var o local.Options
	var network string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Bring a cluster up, and print the path of its kubeconfig",
		Long: `Bring a cluster up, and print the path of its kubeconfig.

Builds Kubernetes and installs containerd, runc and the CNI plugins if they are missing (Debian, Ubuntu). Waits until every node
is Ready and DNS answers. If the cluster is up already, nothing changes. What a killed "up" left is taken away first.
From this machine every node, pod and Service is reached under its own address. Needs root.`,
		Example: `  cluster up
  export KUBECONFIG=$(cluster up --nodes 2)`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if network != "" {
				prefix, err := netip.ParsePrefix(network)
				if err != nil {
					return fmt.Errorf("--network: %w", err)
				}
				o.Network = prefix
			}
			o.Binary = func(ctx context.Context, say *progress.Printer) (kubebinary.Binary, error) { return s.binary(ctx, say) }
			path, err := local.Up(cmd.Context(), o, s.printer())
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), path)
			return nil
		},
	}
	nameFlag(cmd, &o.Name)
	cmd.Flags().IntVar(&o.Nodes, "nodes", 1, "number of nodes")
	controlPlaneFlags(cmd, &o.ExtraAPI, &o.ExtraManager)
	cmd.Flags().StringVar(&network, "network", "", "the cluster's /16, such as 10.200.0.0/16 (default: a free one from 10.200 to 10.231)")
	return cmd
}

func newDownCommand(s *settings) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Take a cluster away, whole or half, with everything it has on this machine but its logs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return local.Down(cmd.Context(), name, s.printer())
		},
	}
	nameFlag(cmd, &name)
	return cmd
}

// nameVariable names the cluster for all commands of a shell at once, and for what calls them.
const nameVariable = "CLUSTER_NAME"

func nameFlag(cmd *cobra.Command, name *string) {
	otherwise := local.DefaultName
	if set := os.Getenv(nameVariable); set != "" {
		otherwise = set
	}
	cmd.Flags().StringVar(name, "name", otherwise, "name of the cluster; "+nameVariable+" in the environment sets the default")
}
