package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/queue/postgres"
)

// removeQueueCommand is for whoever administers the database: no flow needs it, and nothing else runs it.
func removeQueueCommand(p *place) *cobra.Command {
	var file string
	command := &cobra.Command{
		Use:   "remove-queue FLOW-UID",
		Short: "Delete all that PostgreSQL holds of a flow that was deleted",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			raw, err := os.ReadFile(cmp.Or(file, p.Path(runtimeconfig.QueueDir+"/dsn")))
			if err != nil {
				return fmt.Errorf("reading the connection string: %w", err)
			}
			dsn := strings.TrimSpace(string(raw))
			if dsn == "" {
				return errors.New("the file of the connection string is empty")
			}
			found, err := postgres.Remove(cmd.Context(), postgres.Options{ConnString: dsn, FlowUID: args[0]})
			if err != nil {
				return err
			}
			if !found {
				return fmt.Errorf("the database holds nothing of a flow with the UID %s", args[0])
			}
			fmt.Fprintln(cmd.OutOrStdout(), "removed")
			return nil
		},
	}
	command.Flags().StringVar(&file, "connection-file", "", "file with the connection string (default "+runtimeconfig.QueueDir+"/dsn)")
	return command
}
