package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/workpulling/workpulling/hack/cluster/internal/controlplane"
)

func newControlPlaneCommand(s *settings) *cobra.Command {
	o := controlplane.Options{}
	cmd := &cobra.Command{
		Use:   "control-plane",
		Short: "Run etcd, kube-apiserver and kube-controller-manager in the foreground, for integration tests",
		Long: `Run etcd, kube-apiserver and kube-controller-manager, without nodes, on 127.0.0.1 in the foreground.

When everything answers, the path of an administrator's kubeconfig is printed to stdout; with --kubeconfig-out that file
appears then and not before. It ends on SIGINT, on SIGTERM, and, if stdin is a pipe, when that is closed: a test that starts
it with a pipe as stdin takes it along in any death. Needs no root. Several may run at once. All data is in a temporary
directory, removed at the end.`,
		Example: `  cluster control-plane --kubeconfig-out /tmp/kc
  cluster control-plane --controller-manager-arg=--horizontal-pod-autoscaler-sync-period=2s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			say := s.printer()
			ctx := untilClosed(cmd.Context(), os.Stdin)
			binary, err := s.binary(ctx, say)
			if err != nil {
				return err
			}
			o.Kube = binary.Kube()
			o.Ready = func(path string) { fmt.Fprintln(cmd.OutOrStdout(), path) }
			return controlplane.Run(ctx, o, say)
		},
	}
	cmd.Flags().StringVar(&o.KubeconfigOut, "kubeconfig-out", "", "write the kubeconfig to this file when ready, and remove it at the end")
	controlPlaneFlags(cmd, &o.ExtraAPI, &o.ExtraManager)
	cmd.Flags().BoolVar(&o.KeepLogs, "keep", false, "leave data and logs behind at the end")
	return cmd
}

// untilClosed ends the context when a pipe or socket is closed at its other end. A terminal, a file and /dev/null say
// nothing about anyone's life and are not read.
func untilClosed(ctx context.Context, in *os.File) context.Context {
	info, err := in.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		io.Copy(io.Discard, in)
		cancel()
	}()
	return ctx
}

func controlPlaneFlags(cmd *cobra.Command, api, manager *[]string) {
	cmd.Flags().StringArrayVar(api, "apiserver-arg", nil, "one more argument of kube-apiserver (repeatable)")
	cmd.Flags().StringArrayVar(manager, "controller-manager-arg", nil, "one more argument of kube-controller-manager (repeatable)")
}
