package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/workpulling/workpulling/hack/cluster/internal/local"
	"github.com/workpulling/workpulling/hack/cluster/internal/progress"
)

func newStopCommand(s *settings) *cobra.Command {
	return s.onCluster(&cobra.Command{
		Use:   "stop MEMBER COMPONENT...",
		Short: "Kill components of a node or of the control plane, and keep them from being started again",
		Long: `Kill components of a node or of the control plane, as a power cut would, and keep them from being started again.

"cluster status" names the components. Containers run on when kubelet and containerd are stopped.`,
		Example: "  cluster stop control-plane kube-apiserver\n  cluster stop node-1 kubelet containerd",
		Args:    cobra.MinimumNArgs(2),
	}, func(ctx context.Context, c *local.Cluster, say *progress.Printer, args []string) error {
		return c.Stop(ctx, say, args[0], args[1:]...)
	})
}

func newStartCommand(s *settings) *cobra.Command {
	return s.onCluster(&cobra.Command{
		Use:     "start MEMBER COMPONENT...",
		Short:   "Start components again that were stopped, and wait until they run and an API server is ready",
		Example: "  cluster start control-plane kube-apiserver",
		Args:    cobra.MinimumNArgs(2),
	}, func(ctx context.Context, c *local.Cluster, say *progress.Printer, args []string) error {
		return c.Start(ctx, say, args[0], args[1:]...)
	})
}

func newSnapshotCommand(s *settings) *cobra.Command {
	cmd := &cobra.Command{Use: "snapshot", Short: "Save etcd's data, and restore it: the cluster's objects go back in time"}
	cmd.AddCommand(
		s.onCluster(&cobra.Command{
			Use:   "save DIRECTORY",
			Short: "Copy etcd's data into a new directory; etcd is stopped for a moment",
			Args:  cobra.ExactArgs(1),
		}, func(ctx context.Context, c *local.Cluster, say *progress.Printer, args []string) error {
			return c.SaveSnapshot(ctx, say, args[0])
		}),
		s.onCluster(&cobra.Command{
			Use:   "restore DIRECTORY",
			Short: "Put saved data in the place of etcd's, and start the control plane anew",
			Long: `Put saved data in the place of etcd's, and start the control plane anew.

Revisions go back too, as after a restore without "--bump-revision": a client that watches since a later one hears
nothing until the count has come there again.`,
			Args: cobra.ExactArgs(1),
		}, func(ctx context.Context, c *local.Cluster, say *progress.Printer, args []string) error {
			return c.RestoreSnapshot(ctx, say, args[0])
		}),
	)
	return cmd
}

func newSigningKeyCommand(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "signing-key",
		Short: "Rotate the key of ServiceAccount tokens: add, use, retire",
		Long: `Rotate the key of ServiceAccount tokens: add, use, retire. API server and controller manager start anew with each step.

Before "retire", tokens must have been made anew: kubelets do so when they start ("cluster stop node-1 kubelet" and "start").`,
	}
	for _, step := range []struct {
		use, short string
		do         func(*local.Cluster, context.Context, *progress.Printer) error
	}{
		{"add", "Make another key, which is accepted and published and does not sign yet", (*local.Cluster).AddSigningKey},
		{"use", "Let the added key sign; tokens of the former one stay good", (*local.Cluster).UseSigningKey},
		{"retire", "Accept no token of the former key any more", (*local.Cluster).RetireSigningKey},
	} {
		cmd.AddCommand(s.onCluster(&cobra.Command{Use: step.use, Short: step.short, Args: cobra.NoArgs},
			func(ctx context.Context, c *local.Cluster, say *progress.Printer, _ []string) error {
				return step.do(c, ctx, say)
			}))
	}
	return cmd
}

// onCluster completes a command that works on a cluster that is up.
func (s *settings) onCluster(cmd *cobra.Command, do func(context.Context, *local.Cluster, *progress.Printer, []string) error) *cobra.Command {
	var name string
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := local.Open(name)
		if err != nil {
			return err
		}
		return do(cmd.Context(), c, s.printer(), args)
	}
	nameFlag(cmd, &name)
	return cmd
}
