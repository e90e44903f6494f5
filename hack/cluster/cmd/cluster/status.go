package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/workpulling/workpulling/hack/cluster/internal/local"
)

func newStatusCommand() *cobra.Command {
	var name, format string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Tell how a cluster and its processes do",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			status, err := local.Inspect(cmd.Context(), name)
			if err != nil {
				return err
			}
			switch format {
			case "text":
				return printStatus(cmd.OutOrStdout(), status)
			case "json":
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(status)
			default:
				return fmt.Errorf("output format %q: want text or json", format)
			}
		},
	}
	nameFlag(cmd, &name)
	cmd.Flags().StringVarP(&format, "output", "o", "text", "text or json")
	return cmd
}

func printStatus(w io.Writer, s local.Status) error {
	fmt.Fprintf(w, "cluster %s: %s\n", s.Name, s.Phase)
	if s.Phase == "Down" {
		return nil
	}
	fmt.Fprintf(w, "Kubernetes %s, network %s\nkubeconfig %s\nlogs       %s\n\n", s.Version, s.Network, s.Kubeconfig, s.Logs)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MEMBER\tADDRESS\tSTATE\tCOMPONENT\tRUNS\tRESTARTS")
	for _, m := range s.Members {
		state := "alive"
		if m.CutOff {
			state = "cut off"
		}
		if !m.Alive {
			state = "dead"
		}
		for _, name := range slices.Sorted(maps.Keys(m.Components)) {
			c := m.Components[name]
			runs := fmt.Sprint(m.Alive && c.PID != 0)
			if c.Stopped {
				runs = "stopped"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\n", m.Name, m.Address, state, name, runs, c.Restarts)
		}
	}
	return table.Flush()
}

func newKubeconfigCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:     "kubeconfig",
		Short:   "Print the path of a cluster's kubeconfig",
		Example: "  export KUBECONFIG=$(cluster kubeconfig)",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := local.Open(name)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), c.Dir.Kubeconfig())
			return nil
		},
	}
	nameFlag(cmd, &name)
	return cmd
}
