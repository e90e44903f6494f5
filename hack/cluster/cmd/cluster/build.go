package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newBuildCommand(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build the Kubernetes program unless it is there, and print its path",
		Long: `Build the Kubernetes program unless it is there, and print its path.

About ten minutes on two cores with an empty Go build cache; nothing when it is there. It is kept in
${XDG_CACHE_HOME:-~/.cache}/workpulling/kube and built again when its sources, its modules or the Go version change.
"cluster up" and "cluster control-plane" do this by themselves.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			binary, err := s.binary(cmd.Context(), s.printer())
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), binary.Kube())
			return nil
		},
	}
}

func newAssetsCommand(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "assets",
		Short: "Print the directory of etcd, kube-apiserver, kubectl and the others, for KUBEBUILDER_ASSETS or PATH",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			binary, err := s.binary(cmd.Context(), s.printer())
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), binary.Assets())
			return nil
		},
	}
}
