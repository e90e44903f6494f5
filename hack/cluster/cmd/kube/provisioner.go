package main

import (
	"fmt"

	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/workpulling/workpulling/hack/cluster/internal/provisioner"
)

// newProvisionerCommand is the storage side of the local cluster: one process that serves one StorageClass.
func newProvisionerCommand() *cobra.Command {
	var kubeconfig, root, name string
	cmd := &cobra.Command{
		Use:          "storage-provisioner",
		Short:        "Provision volumes as directories that all nodes share",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("reading kubeconfig: %w", err)
			}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return fmt.Errorf("making a client: %w", err)
			}
			p := &provisioner.Provisioner{Client: client, Name: name, Root: root}
			return p.Run(genericapiserver.SetupSignalContext())
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "file with the API server's address and credentials")
	cmd.Flags().StringVar(&root, "root", "/var/lib/volumes", "directory that holds the volumes, the same on every node")
	cmd.Flags().StringVar(&name, "name", "workpulling.dev/directory", "name that StorageClasses use in their provisioner field")
	return cmd
}
