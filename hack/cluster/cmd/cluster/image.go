package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/workpulling/workpulling/hack/cluster/internal/local"
)

func newLoadImageCommand(s *settings) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "load-image ARCHIVE...",
		Short: "Give every node the images of archives (docker save, or OCI layout in a tar file)",
		Long: `Give every node the images of archives (docker save, or OCI layout in a tar file).

There is no registry: a pod that is to use such an image needs imagePullPolicy IfNotPresent or Never.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := local.Open(name)
			if err != nil {
				return err
			}
			say := s.printer()
			for _, path := range args {
				if err := c.LoadImage(cmd.Context(), func(w io.Writer) error { return copyFile(w, path) }); err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				say.Printf("loaded %s into %d node(s)", path, c.State.Nodes)
			}
			return nil
		},
	}
	nameFlag(cmd, &name)
	return cmd
}

func copyFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
